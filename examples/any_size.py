"""Compile a module once, then call it at any size: `python examples/any_size.py`."""

import torch

import anyshape


class Classifier(torch.nn.Module):
    """The mean of a sequence's hidden states, then a softmax over classes: [batch, length, 32] -> [batch, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = torch.nn.Linear(32, 64)
        self.classes = torch.nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states = torch.nn.functional.gelu(self.hidden(x)).mean(1)
        return torch.softmax(self.classes(states), dim=-1)


def main() -> None:
    module = Classifier().eval()
    program = anyshape.compile(module, (torch.randn(2, 7, 32),))
    for batch, length in ((1, 1), (2, 7), (3, 333), (64, 5)):
        x = torch.randn(batch, length, 32)
        with torch.no_grad():
            difference = (program(x) - module(x)).abs().max()
        print(f"batch {batch:3}, length {length:3}: largest difference from PyTorch {difference:.1e}")
    print(program.report())


if __name__ == "__main__":
    main()
