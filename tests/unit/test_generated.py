"""What is checked in as generated is what the models generate."""

import pytest

import generation
from repository import REPOSITORY


def test_generated_files_are_fresh() -> None:
    """crds/ and the chart's manifests are what hack/generate would write now."""
    assert generation.main(["--check"]) == 0


def test_check_names_a_stale_file_and_how_to_renew_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--check writes nothing, shows what differs and says what to run."""
    name, content = next(iter(generation.rendered().items()))
    stored = (REPOSITORY / name).read_bytes()
    monkeypatch.setattr(generation, "rendered", lambda: {name: content + "stale: true\n"})
    assert generation.main(["--check"]) == 1
    said = "".join(capsys.readouterr())
    assert "+stale: true" in said
    assert "1 generated file(s) are stale: run hack/generate" in said
    assert (REPOSITORY / name).read_bytes() == stored
