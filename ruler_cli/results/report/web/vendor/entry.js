// What the report's scripts use of their libraries; `make vendor` bundles it as the global `lib`.
export { h, render } from "preact";
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
export { default as htm } from "htm";
export { barY, dot, line, plot, rect, rectY, ruleX, ruleY } from "@observablehq/plot";
