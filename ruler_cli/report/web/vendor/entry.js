export { h, render, Fragment } from "preact";
export { useState, useEffect, useLayoutEffect, useMemo, useRef, useCallback } from "preact/hooks";
export { default as htm } from "htm";
export { Virtualizer, observeElementOffset, observeElementRect, elementScroll } from "@tanstack/virtual-core";
export { plot, barY, barX, rectY, rectX, rect, dot, line, lineY, areaY, ruleY, ruleX, cell, tickX, text, axisX, axisY, binX, binY, groupX, hexagon } from "@observablehq/plot";
