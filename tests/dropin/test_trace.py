"""The records of `TORCH_TRACE`, which tlparse reads."""

from __future__ import annotations

import json
import logging
import re

import pytest
import torch
import torch._logging._internal

import magneto

from .side_by_side import both, broken, whole

OF_TORCH_ALONE = frozenset(("describe_storage", "describe_tensor", "describe_source", "create_symbol"))
"""How TorchDynamo makes FakeTensors, which no capture of ours needs."""


class Records(logging.Handler):
    """What is written to the trace: (kind, metadata, payload)."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def emit(self, record):
        metadata = dict(record.metadata)
        kind = next(iter(metadata))
        if kind == "artifact":
            kind = metadata["artifact"]["name"]
        self.seen.append((kind, metadata, record.payload))

    def kinds(self):
        """The kinds of records by compile id, without those that only one side has, or that are not ours."""
        left_out = {*OF_TORCH_ALONE, "str", "torch_version", "chromium_event"}
        return [
            (kind, metadata.get("frame_id"), metadata.get("frame_compile_id"))
            for kind, metadata, _ in self.seen
            if kind not in left_out and "BYTECODE" not in kind
        ]


def traced(program):
    def run(compiler):
        records = Records()
        torch._logging._internal.trace_log.addHandler(records)
        try:
            program(compiler)
        finally:
            torch._logging._internal.trace_log.removeHandler(records)
        return records

    return both(run)


def recompiled(compiler):
    compiled = compiler(whole, backend="eager")
    compiled(torch.ones(3))
    compiled(torch.ones(3), "bc")


def with_break(compiler):
    compiler(broken, backend="eager")(torch.ones(3))


def with_backend(compiler):
    compiler(whole, backend="aot_eager")(torch.ones(3, requires_grad=True)).sum().backward()


def failing(compiler):
    with pytest.raises(Exception, match="graph.break"):
        compiler(broken, backend="eager", fullgraph=True)(torch.ones(3))


@pytest.mark.no_leak_hunt("torch.compile leaves a global behind for each frame")
@pytest.mark.parametrize("program", [recompiled, with_break, with_backend, failing])
def test_the_same_records_are_written(program):
    theirs, ours = traced(program)
    assert sorted(ours.kinds()) == sorted(theirs.kinds())


@pytest.mark.no_leak_hunt("torch.compile leaves a global behind for each frame")
@pytest.mark.parametrize("program", [recompiled, with_break, with_backend])
def test_graphs_are_the_same_text(program):
    theirs, ours = traced(program)
    graphs = [
        [
            (metadata["dynamo_output_graph"], re.sub(r"torch_dynamo_resume_in_(\w+)_at_\d+", r"\1", payload))
            for kind, metadata, payload in records.seen
            if kind == "dynamo_output_graph"
        ]
        for records in (theirs, ours)
    ]
    assert graphs[1] == graphs[0] != []


@pytest.mark.no_leak_hunt("torch.compile leaves a global behind for each frame")
def test_fields():
    theirs, ours = traced(with_break)

    def shape(records, kind):
        return [sorted(metadata) for name, metadata, _ in records.seen if name == kind]

    for kind in ("dynamo_start", "dynamo_output_graph", "dynamo_cpp_guards_str", "compilation_metrics"):
        assert shape(ours, kind) == shape(theirs, kind) != []
    metrics = [
        metadata["compilation_metrics"] for kind, metadata, _ in ours.seen if kind == "compilation_metrics"
    ]
    other = [
        metadata["compilation_metrics"] for kind, metadata, _ in theirs.seen if kind == "compilation_metrics"
    ]
    assert [sorted(one) for one in metrics] == [sorted(one) for one in other]
    starts = [metadata["dynamo_start"]["stack"] for kind, metadata, _ in ours.seen if kind == "dynamo_start"]
    assert [set(frames[-1]) for frames in starts] == [{"line", "name", "filename"}] * 2
    assert [set(frame) for frames in starts for frame in frames[:-1]][0] == {
        "line",
        "name",
        "filename",
        "loc",
    }


def test_times_are_pairs():
    _, ours = traced(with_backend)
    events = [json.loads(payload) for kind, _, payload in ours.seen if kind == "chromium_event"]
    open_events, names = [], set()
    for event in events:
        if event["ph"] == "B":
            open_events.append(event["name"])
            names.add(event["name"])
        elif event["ph"] == "E":
            assert open_events.pop() == event["name"]
            assert event["args"]["compile_id"] == "0/0"
    assert not open_events
    assert {"dynamo", "entire_frame_compile", "bytecode_tracing", "backend_compile"} <= names


@pytest.mark.no_leak_hunt("torch.compile leaves a global behind for each frame")
def test_a_break_and_a_recompilation_say_why():
    _, ours = traced(with_break)
    (text,) = [payload for kind, _, payload in ours.seen if kind == "dynamo_graph_break_reason"]
    assert text.startswith("Graph break in user code") and "torch._dynamo.graph_break()" in text
    _, ours = traced(recompiled)
    (text,) = [payload for kind, _, payload in ours.seen if kind == "recompile_reasons"]
    assert text.startswith("0/0: ")


@pytest.mark.no_leak_hunt("runs in a process of its own")
def test_torch_trace_writes_a_file(run_python, tmp_path):
    done = run_python(
        "import torch, magneto\nmagneto.compile(lambda x: x + 1, backend='eager')(torch.ones(3))",
        env={"TORCH_TRACE": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.iterdir()
    text = file.read_text()
    for kind in ("dynamo_start", "dynamo_output_graph", "dynamo_cpp_guards_str", "compilation_metrics"):
        assert f'"{kind}"' in text


def test_nothing_is_made_where_nobody_reads(monkeypatch):
    monkeypatch.setattr("magneto._trace.trace_structured", None)
    magneto.compile(whole, backend="eager")(torch.ones(3))
