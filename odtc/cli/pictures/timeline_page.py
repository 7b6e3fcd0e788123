"""The page around the time line of a profile: its style, its script, and its tables."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from odtc.cli.console import readable_bytes
from odtc.runtime_rpc.metrics.usage import usage_of, usage_rows
from odtc.runtime_rpc.profile.record import MOVES, Phase
from odtc.runtime_rpc.profile.trace import EMULATED

if TYPE_CHECKING:
    from odtc.runtime_rpc.profile.record import Profile

# Operators in the table.
_SHOWN = 60

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --page: #ffffff; --text: #1f2328; --quiet: #636c76;
  --grid: #e3e6ea; --axis: #8c959f; --tip: #24292f; --tip-text: #ffffff;
  --forward: #0072b2; --backward: #d55e00; --update: #009e73; --step: #aab4c0;
  --upload: #cc79a7; --download: #b3005e;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7;
  --c4: #b3005e; --c5: #56b4e9; --c6: #e69f00; --c7: #57606a; }}
@media (prefers-color-scheme: dark) {{ :root {{ --page: #0d1117; --text: #e6edf3;
  --quiet: #8d96a0; --grid: #21262d; --axis: #6e7681; --tip: #e6edf3; --tip-text: #0d1117;
  --forward: #4a9fdd; --backward: #f07c35; --update: #1fbf8f; --step: #484f58;
  --upload: #e39cc4; --download: #ff79b8;
  --c0: #4a9fdd; --c1: #f07c35; --c2: #1fbf8f; --c3: #e39cc4;
  --c4: #ff79b8; --c5: #9ad6fa; --c6: #f2b632; --c7: #8d96a0; }} }}
body {{ margin: 1.2em auto; max-width: 1320px; padding: 0 1em; background: var(--page);
  color: var(--text); font: 14px/1.45 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }}
h1 {{ font-size: 1.35em; margin: 0 0 0.2em; }}
.stamp {{ color: var(--download); font-weight: 600; }}
.quiet {{ color: var(--quiet); }}
.wide {{ overflow-x: auto; max-width: 100%; }}
svg {{ display: block; width: 100%; min-width: 1000px; height: auto;
  cursor: grab; user-select: none; }}
svg text {{ font: 12px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: var(--text); }}
svg .quiet {{ fill: var(--quiet); }}
svg .head {{ font-weight: 600; }}
.grid {{ stroke: var(--grid); }}
.axis {{ stroke: var(--axis); }}
.curve {{ fill: none; stroke-width: 1.5; vector-effect: non-scaling-stroke; }}
.forward {{ fill: var(--forward); }} .backward {{ fill: var(--backward); }}
.update {{ fill: var(--update); }} .step {{ fill: var(--step); }}
.upload {{ fill: var(--upload); }} .download {{ fill: var(--download); }}
{colours}
rect[data-tip]:hover {{ opacity: 0.6; }}
table {{ border-collapse: collapse; margin: 1em 2em 1em 0; }}
td, th {{ padding: 0.15em 0.9em 0.15em 0; text-align: left; border-bottom: 1px solid var(--grid); }}
td:first-child, td:last-child {{ min-width: 8em; max-width: 30em; overflow-wrap: break-word; }}
.key {{ display: inline-block; width: 0.8em; height: 0.8em; margin: 0 0.3em 0 1em; }}
#tip {{ position: fixed; display: none; max-width: 46em; padding: 0.5em 0.7em;
  white-space: pre-line; overflow-wrap: anywhere; color: var(--tip-text);
  background: var(--tip); border-radius: 6px; pointer-events: none; }}
</style>
</head>
<body>
<h1>{title}</h1>
{stamps}
<p>{summary}</p>
<p class="quiet">{keys}<span>&emsp;wheel: closer; drag: along; double click: all</span></p>
<div class="wide" tabindex="0" role="region" aria-label="time line">
{picture}
</div>
<div style="display: flex; flex-wrap: wrap; align-items: flex-start">
{tables}
</div>
<div id="tip"></div>
<script>
{script}
</script>
</body>
</html>
"""

_SCRIPT = """
const svg = document.getElementById("timeline");
const tip = document.getElementById("tip");
const axis = document.getElementById("axis");
const scaled = svg.querySelector(".scaled");
const [all, left, width, bottom] =
  ["ms", "left", "width", "bottom"].map((name) => Number(svg.dataset[name]));
let from = 0, length = all;
const make = (name, values, text) => {
  const node = document.createElementNS(svg.namespaceURI, name);
  for (const key in values) node.setAttribute(key, values[key]);
  if (text !== undefined) node.textContent = text;
  axis.append(node);
};
const draw = () => {
  length = Math.min(all, Math.max(all / 5000, length));
  from = Math.min(all - length, Math.max(0, from));
  const scale = all / length;
  const shift = left - scale * (left + width * from / all);
  scaled.setAttribute("transform", `matrix(${scale} 0 0 1 ${shift} 0)`);
  const power = 10 ** Math.floor(Math.log10(length / 10));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= length / 10);
  axis.replaceChildren();
  for (let n = Math.ceil(from / step); n * step <= from + length; n++) {
    const x = left + width * (n * step - from) / length;
    make("line", {class: "grid", x1: x, x2: x, y1: 12, y2: bottom});
    const label = Number((n * step).toPrecision(10));
    make("text", {class: "quiet", x: x, y: bottom + 16, "text-anchor": "middle"}, label);
  }
};
const at = (event) => {
  const box = svg.getBoundingClientRect();
  const x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
  return (x - left) / width;
};
svg.addEventListener("wheel", (event) => {
  event.preventDefault();
  const place = Math.min(1, Math.max(0, at(event)));
  const fixed = from + place * length;
  length = Math.min(all, Math.max(all / 5000, length * (event.deltaY > 0 ? 1.25 : 0.8)));
  from = fixed - place * length;
  draw();
}, {passive: false});
let held = null;
svg.addEventListener("pointerdown", (event) => { held = from + at(event) * length; });
addEventListener("pointerup", () => { held = null; });
svg.addEventListener("dblclick", () => { from = 0; length = all; draw(); });
svg.addEventListener("pointermove", (event) => {
  if (held !== null) { from = held - at(event) * length; draw(); }
  const text = event.target.dataset.tip;
  tip.style.display = text ? "block" : "none";
  if (!text) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(0, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
  const above = event.clientY - 14 - box.height;
  const below = event.clientY + 14;
  tip.style.top = (below + box.height > innerHeight ? Math.max(0, above) : below) + "px";
});
svg.addEventListener("pointerleave", () => { tip.style.display = "none"; });
draw();
"""


def page(profile: "Profile", picture: str) -> str:
    """The page with a picture of the profile in it."""
    title = f"{profile.model} on {profile.device}"
    stamps = {EMULATED: profile.emulated, "samples of a fixture": profile.samples.fixture}
    milliseconds = [1e3 * seconds for seconds in profile.step_seconds]
    summary = (
        f"{len(profile.steps)} steps of {min(milliseconds):.2f} to {max(milliseconds):.2f} ms on "
        f"the device, {profile.coverage:.1%} of it in operators; "
        f"{readable_bytes(profile.peak_bytes)} of the arena alive at most"
    )
    return _PAGE.format(
        title=escape(title),
        stamps="".join(f'<p class="stamp">{text}</p>' for text, holds in stamps.items() if holds),
        summary=escape(summary),
        keys="".join(_key(name) for name in (*(phase.value for phase in Phase), *MOVES)),
        picture=picture,
        tables="\n".join(_tables(profile)),
        colours="\n".join(
            f".c{n} {{ stroke: var(--c{n}); }} svg .t{n} {{ fill: var(--c{n}); }}" for n in range(8)
        ),
        script=_SCRIPT,
    )


def _key(name: str) -> str:
    return f'<span class="key" style="background: var(--{name})"></span>{name}'


def _tables(profile: "Profile") -> Iterator[str]:
    seconds = profile.operator_seconds
    total = sum(seconds) or 1.0
    slowest = sorted(range(len(seconds)), key=lambda number: -seconds[number])[:_SHOWN]
    yield _table(
        ("operator", "part", "ms", "share", "kernel"),
        (
            (
                profile.operators[number].label,
                profile.operators[number].phase.value,
                f"{1e3 * seconds[number]:.3f}",
                f"{seconds[number] / total:.1%}",
                profile.operators[number].kernel,
            )
            for number in slowest
        ),
    )
    yield _table(("of the run", ""), usage_rows(usage_of(profile.samples)))
    probes = profile.samples.probes.items()
    yield _table(("source", "", ""), ((name, probe.state, probe.detail) for name, probe in probes))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>\n{body}</table></div>'
