"""The programs of docs/python.md, in their order."""

import importlib.util
import re
import runpy
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "python.md"


def test_the_page_s_programs_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    (ptx,) = re.findall(r"```ptx\n(.*?)```", text, re.DOTALL)
    Path("hand_over.ptx").write_text(ptx)
    names = {}
    programs = re.findall(r"```python(?: file=(\S+))?\n(.*?)```", text, re.DOTALL)
    assert len(programs) >= 6
    for file, program in programs:
        if not file:
            exec(compile(program, str(PAGE), "exec"), names)
        elif file.startswith("test_"):
            Path(file).write_text(program)
            assert pytest.main(["-q", "-p", "no:cacheprovider", file]) == 0
        else:
            needed = "torch" if "import torch" in program else "triton"
            if importlib.util.find_spec(needed):
                Path(file).write_text(program)
                runpy.run_path(file)
    assert "error[race]" in capsys.readouterr().out
