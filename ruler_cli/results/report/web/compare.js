"use strict";
// Two judges side by side.
