"""``tui``: how soon the screen is there and answers keys, and what it costs.

Everything is measured on a pseudo-terminal of 120 columns and 40 rows whose other side is read at once, as a
terminal emulator does; the child on it is the real app, and what it talks to is a process, as always.

``first_paint_ms``: from the start of ``pace`` to when every cell was written to and the prompt is there.
``bare_paint_ms``: the same of a Textual app that shows one line, in turns with it; ``first_paint_ratio`` is
of pairs of neighbours. With ``cpu``: how much of that was spent on a processor, which says more on a machine
that is busy. ``first_paint_bytes``: what was written up to two seconds after the start.

``echo_p50_ms`` and ``echo_p95_ms``: from a key to the bytes that show it, while 30 tokens a second stream in;
with ``_5000``: below 5,000 earlier entries. ``bare_echo_p95_ms``: in a text area alone, nothing streaming.
Letters are typed and taken back after random pauses, so that they do not fall in step with any drawing.

``draw_core_share``: time on a processor of all threads of the app while 30 tokens a second stream in, less
what it takes when nothing does, as a share of one core; ``_5000`` as above. ``stream_bytes``: written to the
terminal for each second of the stream.

``generation_slowdown``: the same model writes the same number of tokens in two worker processes, in turns;
one has the screen attached, the other's pipe is read and thrown away. It is by how much more time a token
takes with the screen. The model has random weights, and is so large that it writes about as fast as a small
real one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pace_local.bench.cli import Benchmark, Options, Outcome
from pace_local.bench.report import Row
from pace_local.bench.subject import Subject, find_subject
from pace_local.models import Say
from pace_local.testing import TinySpec, tiny_model
from pace_tui.bench.drawing import StreamSizes, measure_stream
from pace_tui.bench.first_paint import measure_first_paint
from pace_tui.bench.slowdown import SlowdownSizes, measure_slowdown

_SAMPLES = 5
_SPEC = TinySpec(arch="qwen3", n_layer=8, n_head=16, n_head_kv=4, head_dim=64, n_ff=4096, weights="Q8_0")
"""110 million parameters."""


@dataclass(frozen=True)
class TuiSizes:
    """Sizes of all parts."""

    paints: int = 9
    """First paints at least, whatever the samples: each takes little time, and varies much."""

    stream: StreamSizes = field(default_factory=StreamSizes)
    slowdown: SlowdownSizes = field(default_factory=SlowdownSizes)


def measure_tui(
    subject: Subject,
    *,
    samples: int,
    threads: int | None,
    folder: Path,
    say: Say,
    sizes: TuiSizes | None = None,
) -> list[Row]:
    """All rows of ``tui``.

    Args:
        subject: writes what ``generation_slowdown`` times.
        samples: of each row; of first paints, as many as the sizes say at least.
        threads: of the model; None: as the agent has it.
        folder: where bytecode is kept, and an empty repository lies.
        say: takes lines for people.
        sizes: None: the usual ones.

    Raises:
        PaceError: if a child ends by itself, or shows nothing for a minute.
    """
    sizes = sizes or TuiSizes()
    folder.mkdir(parents=True, exist_ok=True)
    paints = max(samples, sizes.paints)
    rows = measure_first_paint(model=subject.path, samples=paints, folder=folder, say=say)
    rows += measure_stream(samples=samples, folder=folder, say=say, sizes=sizes.stream)
    rows += measure_slowdown(
        subject, samples=samples, threads=threads, folder=folder, say=say, sizes=sizes.slowdown
    )
    return rows


def run_tui(options: Options) -> Outcome:
    """``tui`` with the first model that was named, else with random weights."""
    options.cache_dir.mkdir(parents=True, exist_ok=True)
    reference = options.models[0] if options.models else str(tiny_model(_SPEC, options.cache_dir))
    line = options.line
    subject = find_subject(reference, options.cache_dir, progress=line, say=line.say)
    return [subject], measure_tui(
        subject,
        samples=options.samples_or(_SAMPLES),
        threads=options.threads,
        folder=options.cache_dir / "tui",
        say=line.say,
    )


BENCHMARK = Benchmark(
    "tui",
    run_tui,
    """\
first paint, key to echo and time on a processor of the screen while 30 tokens a second stream
in, with an empty transcript and below 5,000 entries; how much it slows generation down, of the
first MODEL or of random weights. The real app on a terminal of its own; 5 samples, 10 minutes""",
)
