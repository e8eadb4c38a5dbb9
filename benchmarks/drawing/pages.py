"""The documentation's pages: what each says, and the cases behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drawing import decoder_tables, summary
from drawing.growth import growth
from drawing.overhead import overhead
from drawing.results import Results, Source, ended
from drawing.switching import switching
from drawing.words import table

MADE = "<!-- Made by benchmarks/draw.py from the results named below. -->"


@dataclass(frozen=True)
class Page:
    """A page with a body that is made from results, and is empty where nothing was measured."""

    title: str
    says: str
    cases: tuple[str, ...]
    body: Callable[[Results], str]


LATENCY = ("latency-small", "latency-reference")
AGAIN = "`torch.compile` was measured after the others, with two named profiles again beside it: those have two rows."

PAGES = {
    "summary": Page(
        "What stands out",
        f"""\
Medians; kernel specialization "{summary.STRATEGY}" for the decoders, for switching and for our kernel, "none" for
profiling and threads, all three for first calls. The other pages have quartiles, further settings, and words where a
figure is worse than a peer's.""",
        (
            *LATENCY,
            "first-calls",
            "generation",
            "memory",
            "switching",
            "contexts",
            "kernel",
            "profiling",
            "growth-threads",
        ),
        summary.summary,
    ),
    "latency": Page(
        "Decode and prefill latency",
        f"""\
One process per model, contenders in turns. A warm figure is the median time between CUDA events around one call on an
idle GPU, quartiles in brackets. First calls have no runtime cache and are timed on the host's clock, selecting the
profile included, one for each time that the engines were made anew, in their order; the first of a process may take
longer. For eager PyTorch with CUDA graphs they include the capture, for `torch.compile` compiling and tuning; with CUDA
graphs it comes second in its process and may find in its cache what the first compilation tuned. Without them its mode
is "max-autotune-no-cudagraphs".
"two named profiles" says how they compare with the row's contender: warm by medians, where a figure that is worse says
so and overlapping quartiles have no verdict; first calls, which are few, by the last of each, where a quarter more or
less counts as the same.
{AGAIN}""",
        LATENCY,
        decoder_tables.latency,
    ),
    "first_calls": Page(
        "First calls",
        """\
The first call of each phase with two named profiles, on an engine that was made anew from the plan, without a runtime
cache and with one that another engine filled before. They are told one by one, in their order.""",
        ("first-calls",),
        decoder_tables.first_calls,
    ),
    "generation": Page(
        "Generating text",
        """\
The small decoder with mixed prompt and output lengths, greedy, every token waited for; kernel specialization "lazy".
Behind each figure: how two named profiles compare with it.""",
        ("generation",),
        decoder_tables.generation,
    ),
    "memory": Page(
        "Device memory",
        """\
What each arrangement takes of the device after prefill and decode calls: weights, contexts, activations and kernels.
The last two columns say how two named profiles and a context per profile compare with the row.""",
        ("memory",),
        decoder_tables.memory,
    ),
    "floor": Page(
        "Against the floor",
        f"""\
A decode call has to read its weights. The floor is the time in which the same GPU moves that many bytes in a large copy
on the device, bytes read and written counted. The second floor adds the KV cache: the reference decoder reads it once;
the small one reads it twice and writes it, since it returns a new cache. How contenders compare with each other, and
where two named profiles are worse, is in [the tables of latency](latency.md).
{AGAIN}""",
        LATENCY,
        decoder_tables.floor,
    ),
    "switching": Page(
        "Switching",
        "What selecting a profile costs per step, and when a profile pays for its switches.",
        (*LATENCY, "switching", "contexts"),
        switching,
    ),
    "overhead": Page(
        "What a call costs the host",
        """\
Our kernel's cost in each state, measured within one process, with and without it in turns; between processes the cost
of a launch varies by more, as the samples show. And process-wide profiling per format.""",
        ("kernel", "profiling"),
        overhead,
    ),
    "growth": Page(
        "Growth",
        """\
1 to 16 profiles, 1 to 16 engines, 1 to 8 threads; kernel specialization "none". The decode call has one row: of several
profiles the first is for that alone, a single one is tuned for the most rows. Threads enter a block per call, even ones
for one row and odd ones for 64.""",
        ("growth-profiles", "growth-engines", "growth-threads"),
        growth,
    ),
}


def written(results: Results) -> dict[str, str]:
    """File name without its ending, and text. A page for which nothing was measured is left out."""
    texts = {}
    for name, page in PAGES.items():
        body = page.body(results)
        if body:
            texts[name] = text_of(page.title, page.says, body, results.sources_of(page.cases))
    says = """\
What is missing from the figures that the pages show, with the reason that the suite recorded; and cases of other files,
which no page shows since one file is enough."""
    texts["left_out"] = text_of("What was left out", says, left_out(results), results.sources_of(results.cases))
    return texts


def text_of(title: str, says: str, body: str, sources: Sequence[Source]) -> str:
    return f"{MADE}\n\n# {title}\n\n{says}\n\n{body}\n\n{where_from(sources)}\n"


def where_from(sources: Sequence[Source]) -> str:
    lines = []
    for source in sources:
        head = source.head
        versions = (
            f"torch {head.get('torch')}, Torch-TensorRT {head.get('torch_tensorrt')}, TensorRT {head.get('tensorrt')}"
        )
        file = f"[{source.name}](../../benchmarks/results/{source.name})"
        revision = (head.get("revision") or "unknown")[:10]
        lines.append([file, str(head.get("gpu")), str(head.get("driver")), versions, revision])
    return table(["samples", "GPU", "driver", "versions", "revision"], lines)


def left_out(results: Results) -> str:
    lines = []
    for name, entry in results.cases.items():
        if entry["status"] != "complete":
            what = "the rest of it" if "result" in entry else "all of it"
            lines.append([name, what, ended(entry)])
        for skipped in entry.get("result", {}).get("skipped", []):
            lines.append([name, skipped["what"], skipped["why"]])
    lines = [[" ".join(cell.replace("|", "/").split())[:300] for cell in line] for line in lines]
    said = table(["case", "what", "why"], lines) if lines else "Nothing was left out."
    others = [[each.case, each.file, each.ended, results.sources[each.case].name] for each in results.superseded]
    if others:
        head = ["case", "file whose figures no page shows", "how the case ended there", "the pages show"]
        said += f"\n\n## Other runs\n\n{table(head, others)}"
    return said
