"""What `make package` runs in a fresh environment with the wheel in it, and MAGNETO=1: python smoke.py PLACE."""

import sys
from pathlib import Path

import torch  # installs magneto: the wheel's .pth file waits for it

assert type(torch.compile(lambda x: x, backend="eager")).__module__ == "magneto._core", (
    "MAGNETO=1 does nothing"
)

import magneto  # noqa: E402

package = Path(magneto.__file__).parent
assert package.is_relative_to(sys.argv[1]), f"{package} is not in the fresh environment"
assert (package / "py.typed").exists() and (package / "_core.pyi").exists()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).relu() + 1


net = Net()
x = torch.ones(2, 4)
expected = net(x)
for backend in ("eager", "aot_eager"):
    compiled = torch.compile(net, backend=backend, fullgraph=True)
    assert torch.allclose(compiled(x), expected) and torch.allclose(compiled(x), expected)
    assert len(magneto.cache_entries(compiled)) == 1
    compiled(x).sum().backward()
magneto.uninstall()
assert type(torch.compile(lambda x: x, backend="eager")) is type(lambda: 0)
print("magneto", magneto.__version__, "from the wheel works")
