"""The layout of `--help`: plain text in aligned columns, the same on every terminal and in a pipe."""

import textwrap
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

WIDTH: Final = 100
_UNWRAPPED: Final = 100_000
_GAP: Final = 2


class HelpTable:
    """Formats one group of commands or options below another; used by cyclopts."""

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:
        """Print one group: labels on the left, wrapped sentences on the right."""
        if not panel.entries:
            return
        rows = [
            (_label(entry), _text(entry, _plain(entry.description, console, options)))
            for entry in panel.entries
        ]
        left = max(len(label) for label, _ in rows) + _GAP
        width = min(options.max_width, WIDTH)
        lines = [f"{_plain(panel.title, console, options)}:"]
        for label, text in rows:
            wrapped = textwrap.wrap(text, max(20, width - left - 2)) or [""]
            lines.append(f"  {label:<{left}}{wrapped[0]}".rstrip())
            lines += [" " * (left + 2) + line for line in wrapped[1:]]
        _print(console, "\n".join(lines) + "\n")

    def render_usage(self, console: "Console", options: "ConsoleOptions", usage: Any) -> None:
        """Print the usage line."""
        text = _plain(usage, console, options)
        _print(console, f"{text if text.startswith('Usage:') else f'Usage: {text}'}\n")

    def render_description(self, console: "Console", options: "ConsoleOptions", description: Any) -> None:
        """Print what the command does."""
        paragraphs = _plain(description, console, options).split("\n\n")
        width = min(options.max_width, WIDTH)
        _print(console, "\n\n".join(textwrap.fill(" ".join(p.split()), width) for p in paragraphs) + "\n")


def _label(entry: "HelpEntry") -> str:
    names = [*entry.positive_shorts, *entry.positive_names]
    if entry.positional_label and not any(n.startswith("-") for n in names):
        return entry.positional_label
    value = f" {entry.metavar}" if entry.metavar and entry.metavar.strip() else ""
    return ", ".join(names) + value


def _text(entry: "HelpEntry", description: str) -> str:
    choices = f" One of: {', '.join(entry.choices)}." if entry.choices else ""
    default = f" [default: {entry.default}]" if entry.default is not None else ""
    return f"{' '.join(description.split())}{choices}{default}"


def _plain(value: Any, console: "Console", options: "ConsoleOptions") -> str:
    """Return the words of anything rich can show, unstyled and not yet wrapped."""
    if value is None or isinstance(value, str):
        return (value or "").strip()
    wide = options.update(width=_UNWRAPPED)
    text = "".join(segment.text for segment in console.render(value, wide) if not segment.control)
    return "\n".join(line.rstrip() for line in text.splitlines()).strip()


def _print(console: "Console", text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
