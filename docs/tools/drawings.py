"""Draw the figures of docs/concepts.md: python docs/tools/drawings.py [FOLDER]."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

IMAGES = Path(__file__).parents[1] / "images"
INK = "#30343a"
PAPER = "#ffffff"
GREY = "#e8eaee"
BLUE = "#cfe0f5"
GREEN = "#d3ecd6"
YELLOW = "#f8e7b9"
RED = "#f3d0cc"


@dataclass
class Drawing:
    """An SVG picture that is drawn from left to right and from top to bottom; lengths are pixels."""

    width: int
    height: int
    parts: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, words: str, size: int = 15, anchor: str = "middle", weight: str = "400") -> None:
        """Write a line of text around, or from, a point."""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" '
            f'fill="{INK}">{escape(words)}</text>'
        )

    def box(
        self, x: float, y: float, width: float, height: float, color: str, *lines: str, dashed: bool = False
    ) -> None:
        """Draw a box with lines of text in its middle."""
        dashes = ' stroke-dasharray="6 4"' if dashed else ""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{color}" '
            f'stroke="{INK}" stroke-width="1.2"{dashes}/>'
        )
        top = y + height / 2 + 5 - 10 * (len(lines) - 1)
        for row, line in enumerate(lines):
            self.text(x + width / 2, top + 20 * row, line)

    def arrow(self, x: float, y: float, to_x: float, to_y: float, dashed: bool = False) -> None:
        """Draw an arrow between two points."""
        dashes = ' stroke-dasharray="6 4"' if dashed else ""
        self.parts.append(
            f'<line x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}" stroke="{INK}" stroke-width="1.4" '
            f'marker-end="url(#tip)"{dashes}/>'
        )

    def svg(self, title: str) -> str:
        """Return the picture as text."""
        tip = (
            '<marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto-start-reverse"><path d="M0 0 10 5 0 10z" fill="{INK}"/></marker>'
        )
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" font-family="sans-serif" role="img">'
        )
        paper = f'<rect width="{self.width}" height="{self.height}" fill="{PAPER}"/>'
        lines = [head, f"<title>{escape(title)}</title>", f"<defs>{tip}</defs>", paper, *self.parts, "</svg>"]
        return "\n".join(lines) + "\n"


def slots() -> str:
    """Draw agents in slots, and a scene that replaces another."""
    drawing = Drawing(820, 330)
    drawing.text(20, 30, "N environments, each with its agent", anchor="start", weight="600")
    drawing.text(20, 290, "K slots in use, and a spare one", anchor="start", weight="600")
    rows = ("0", "1", "2", "3", "4", "5", "6", "7")
    slot_of = (0, 1, 2, 0, 1, 2, 0, 1)
    lefts = (20, 220, 420)
    for index, name in enumerate(rows):
        x = 20 + 72 * index
        drawing.box(x, 45, 58, 38, BLUE, f"env {name}")
        drawing.arrow(x + 29, 85, lefts[slot_of[index]] + 40 + 50 * (index // 3), 202)
    for left, name in zip(lefts, ("attic", "house", "loft"), strict=True):
        drawing.box(left, 205, 180, 60, GREEN, f"scene {name}", "in memory once")
    drawing.box(640, 205, 160, 60, GREY, "spare slot:", "scene villa arrives", dashed=True)
    drawing.arrow(602, 235, 638, 235, dashed=True)
    drawing.text(
        20, 315, "an agent moves over when its episode ends; the slot that all have left is spare again", 14, "start"
    )
    return drawing.svg("Agents in slots")


def step() -> str:
    """Draw the phases of a step."""
    drawing = Drawing(820, 170)
    phases = (
        ("move", BLUE), ("measure", BLUE), ("reward, end", BLUE),
        ("begin", YELLOW), ("draw", GREEN), ("observe", GREEN),
    )  # fmt: skip
    for index, (name, color) in enumerate(phases):
        x = 20 + 133 * index
        drawing.box(x, 50, 112, 50, color, name)
        if index:
            drawing.arrow(x - 19, 75, x - 2, 75)
    drawing.text(20, 30, "actions [N]", anchor="start")
    drawing.text(800, 30, "observations, rewards, ends, infos [N]", anchor="end")
    drawing.text(20, 135, "send: agents move, are scored, and drawing starts", 14, anchor="start")
    drawing.text(800, 135, "recv: waits for the images", 14, anchor="end")
    drawing.text(410, 160, "one call for all N environments", 14)
    return drawing.svg("The phases of a step")


def autoreset() -> str:
    """Draw the steps around the end of an episode in the three autoreset modes."""
    drawing = Drawing(820, 330)
    for column, name in enumerate(("step t, which ends the episode", "step t + 1")):
        drawing.text(330 + 310 * column, 30, name, weight="600")
    modes = (
        (
            "next_step",
            ("its last observation", 'info["success"]'),
            ("first of the next episode", "the action is ignored"),
        ),
        ("same_step", ("first of the next episode", "final_obs, final_info: the last"), ("second of it", "")),
        (
            "disabled",
            ("its last observation", 'info["success"]'),
            ("after reset(reset_mask)", "second of the next episode"),
        ),
    )
    colors = ((RED, GREEN), (GREEN, GREEN), (RED, GREEN))
    for row, ((mode, ends, after), (color, after_color)) in enumerate(zip(modes, colors, strict=True)):
        y = 50 + 85 * row
        drawing.text(20, y + 38, mode, anchor="start", weight="600")
        drawing.box(190, y, 280, 64, color, *filter(None, ends))
        drawing.box(500, y, 280, 64, after_color, *filter(None, after))
        drawing.arrow(472, y + 32, 498, y + 32)
    drawing.text(410, 318, "red: the episode that ends; green: the next one", 14)
    return drawing.svg("The three autoreset modes")


DRAWINGS = {"slots.svg": slots, "step.svg": step, "autoreset.svg": autoreset}


def main(folder: Path) -> None:
    """Write all drawings into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in DRAWINGS.items():
        (folder / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
