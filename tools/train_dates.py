#!/usr/bin/env python3
"""Train the two small models behind the date demo and write its data.

Both models read a date the way people write it, one character at a time, and
write it again as ISO 8601:

    "Tuesday, the 3rd of March 1998"  ->  "1998-03-03"
    "mar. 12/11/99"                   ->  "1999-11-12"

* `Recurrent`: a bidirectional GRU encoder and a GRU decoder with additive
  (Bahdanau) attention, score(q, k) = w_v . tanh(W_q q + W_k k).
* `Transformer`: a small encoder-decoder made of torch.nn.MultiheadAttention.

After training, a dozen held-out sentences go through both models, and the very
tensors that reach four attention layers, with what PyTorch makes of them, are
written next to the weights of these layers (see the README.md it writes).

    python3 tools/train_dates.py --out tests/data/dates     # minutes, one core
    python3 tools/train_dates.py --quick                    # does it run?

Needs Python >= 3.9, PyTorch >= 1.13 and NumPy. The data is generated here: no
download.

How a written date is read
--------------------------
These rules make every generated string mean exactly one date:

* Dates lie between 1950-01-01 and 2049-12-31. A two-digit year, with or without
  an apostrophe, is 19yy from 50 to 99 and 20yy from 00 to 49.
* Numbers only: day, month, year ("3/4/99" is the 3rd of April), unless the
  first number has four digits: then year, month, day. Eight digits without a
  separator are yyyymmdd.
* Month as a word: the number before or after it that is not the year is the
  day; a two-digit year always comes last.
* A weekday may come first. It is always the right one, and never needed.
* Capital letters mean nothing, and accents may be missing.
"""

import argparse
import datetime
import json
import math
import pathlib
import platform
import random
import re
import struct
import tempfile
import time
import unicodedata

import numpy as np
import torch
from torch import nn

# --------------------------------------------------------------------------
# Dates as people write them
# --------------------------------------------------------------------------

FIRST_DAY = datetime.date(1950, 1, 1)
LAST_DAY = datetime.date(2049, 12, 31)
HELD_OUT_SHARE = 0.1

# For each language: full month names, abbreviations ("a|b" are alternatives),
# weekdays from Monday, their abbreviations, and the styles it is written in.
# {d} is the day as a number, {o} as the language's ordinal, {m} the month name,
# {y} the year.
LANGUAGES = {
    "en": dict(
        months="January February March April May June July August September October November December",
        short="Jan Feb Mar Apr May Jun Jul Aug Sep|Sept Oct Nov Dec",
        weekdays="Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
        short_weekdays="Mon Tue|Tues Wed Thu|Thurs Fri Sat Sun",
        styles=["{m} {d}, {y}", "{m} {o}, {y}", "{m} {o} {y}", "{o} of {m} {y}", "the {o} of {m}, {y}",
                "the {o} of {m} {y}", "{d} {m} {y}", "{o} {m} {y}", "{d}-{m}-{y}"]),
    "de": dict(
        months="Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        short="Jan Feb Mär Apr Mai Jun Jul Aug Sep|Sept Okt Nov Dez",
        weekdays="Montag Dienstag Mittwoch Donnerstag Freitag Samstag|Sonnabend Sonntag",
        short_weekdays="Mo Di Mi Do Fr Sa So",
        styles=["{o} {m} {y}", "{o} {m} {y}", "den {o} {m} {y}", "am {o} {m} {y}", "{d} {m} {y}"]),
    "fr": dict(
        months="janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        short="janv févr|fév mars avr mai juin juil août sept oct nov déc",
        weekdays="lundi mardi mercredi jeudi vendredi samedi dimanche",
        short_weekdays="lun mar mer jeu ven sam dim",
        styles=["{o} {m} {y}", "{o} {m} {y}", "le {o} {m} {y}"]),
    "es": dict(
        months="enero febrero marzo abril mayo junio julio agosto septiembre|setiembre octubre noviembre diciembre",
        short="ene feb mar abr may jun jul ago sep|sept oct nov dic",
        weekdays="lunes martes miércoles jueves viernes sábado domingo",
        short_weekdays="lun mar mié jue vie sáb dom",
        styles=["{d} de {m} de {y}", "{d} de {m} de {y}", "el {d} de {m} de {y}", "{d} de {m} del {y}",
                "{d} {m} {y}", "{d}-{m}-{y}"]),
    "it": dict(
        months="gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
        short="gen feb mar apr mag giu lug ago set|sett ott nov dic",
        weekdays="lunedì martedì mercoledì giovedì venerdì sabato domenica",
        short_weekdays="lun mar mer gio ven sab dom",
        styles=["{o} {m} {y}", "{o} {m} {y}", "il {o} {m} {y}"]),
    "nl": dict(
        months="januari februari maart april mei juni juli augustus september oktober november december",
        short="jan feb mrt apr mei jun jul aug sep|sept okt nov dec",
        weekdays="maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
        short_weekdays="ma di wo do vr za zo",
        styles=["{d} {m} {y}", "{d} {m} {y}", "op {d} {m} {y}", "{d}-{m}-{y}"]),
    "pt": dict(
        months="janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        short="jan fev mar abr mai jun jul ago set out nov dez",
        weekdays="segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
        short_weekdays="seg ter qua qui sex sáb dom",
        styles=["{o} de {m} de {y}", "{o} de {m} de {y}", "dia {d} de {m} de {y}", "{d} {m} {y}"]),
}
LANGUAGES = {code: {field: text.split() if isinstance(text, str) else text for field, text in language.items()}
             for code, language in LANGUAGES.items()}


def ordinal(day, code):
    """The day as an ordinal of the language, where it uses one."""
    if code == "en":
        suffix = "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
        return f"{day}{suffix}"
    if code == "de":
        return f"{day}."
    first = {"fr": "1er", "it": "1º", "pt": "1º"}
    return first[code] if day == 1 and code in first else str(day)


def strip_accents(text):
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


def name_of(language, full, short, index, rng):
    """A month or a weekday, written out or abbreviated (sometimes with a dot)."""
    whole = rng.choice(language[full][index].split("|"))
    if rng.random() < 0.55:
        return whole
    brief = rng.choice(language[short][index].split("|"))
    return brief + "." if brief != whole and rng.random() < 0.3 else brief


def write_date(date, rng):
    """One of the many ways in which people write this date."""
    code = rng.choice(list(LANGUAGES))
    language = LANGUAGES[code]
    day = rng.choice([f"{date.day}", f"{date.day:02}"]) if rng.random() < 0.6 else f"{date.day}"
    short_year = f"{date.year % 100:02}"

    kind = rng.random()
    if kind < 0.10:  # year, month, day
        month = f"{date.month:02}" if len(day) == 2 else f"{date.month}"
        text = rng.choice("-/.").join([str(date.year), month, day])
    elif kind < 0.14:  # the same without separators
        text = f"{date:%Y%m%d}"
    elif kind < 0.36:  # day, month, year
        month = f"{date.month:02}" if rng.random() < 0.5 else f"{date.month}"
        text = rng.choice("/.- ").join([day, month, rng.choice([str(date.year), short_year])])
    else:
        month = name_of(language, "months", "short", date.month - 1, rng)
        year = rng.choice([str(date.year)] * 7 + [short_year] * 2 + ["'" + short_year])
        text = rng.choice(language["styles"]).format(d=day, o=ordinal(date.day, code), m=month, y=year)
    if rng.random() < 0.4 and not text.isdigit():
        weekday = name_of(language, "weekdays", "short_weekdays", date.weekday(), rng)
        text = weekday + rng.choice([" ", ", "]) + text

    if code in ("fr", "es", "it", "pt") and rng.random() < 0.15:
        text = strip_accents(text.replace("º", " ").replace("  ", " "))
    case = rng.random()
    if case < 0.10:
        return text.lower()
    if case < 0.20:
        return text.upper()
    if case < 0.25:
        return text[0].upper() + text[1:]
    return text


def split_dates(seed):
    """All dates in two lists: for training, and held out. No date is in both."""
    days = (LAST_DAY - FIRST_DAY).days + 1
    dates = [FIRST_DAY + datetime.timedelta(days=i) for i in range(days)]
    random.Random(seed).shuffle(dates)
    held_out = int(days * HELD_OUT_SHARE)
    return dates[held_out:], dates[:held_out]


def write_pairs(dates, rng, seen):
    """(written, ISO) for each date. Checks that no string ever means two dates."""
    pairs = []
    for date in dates:
        pair = write_date(date, rng), date.isoformat()
        assert seen.setdefault(*pair) == pair[1], f"{pair[0]} also means {seen[pair[0]]}"
        pairs.append(pair)
    return pairs


# --------------------------------------------------------------------------
# Characters as numbers
# --------------------------------------------------------------------------

PAD = 0      # source: padding
UNKNOWN = 1  # source: a character that training has not met
SOURCE_CHARACTERS = sorted(
    set("0123456789 ,.-/'º") |  # and the letters of the words
    {c for language in LANGUAGES.values() for words in language.values() for word in words
     for c in word + word.upper() + strip_accents(word + word.upper()) if c not in "{}|"})
SOURCE_INDEX = {c: i + 2 for i, c in enumerate(SOURCE_CHARACTERS)}
SOURCE_SIZE = len(SOURCE_CHARACTERS) + 2
MAX_SOURCE = 48

TARGET_CHARACTERS = "0123456789-"
START = len(TARGET_CHARACTERS)  # what the decoder reads before it has written anything
TARGET_LENGTH = 10              # "1998-03-03"


def encode_batch(pairs):
    """source (B,N), valid_lens (B,), target (B,10), all int64."""
    valid_lens = torch.tensor([len(text) for text, _ in pairs])
    source = torch.full((len(pairs), int(valid_lens.max())), PAD)
    for row, (text, _) in zip(source, pairs):
        row[:len(text)] = torch.tensor([SOURCE_INDEX.get(c, UNKNOWN) for c in text])
    target = torch.tensor([[TARGET_CHARACTERS.index(c) for c in iso] for _, iso in pairs])
    return source, valid_lens, target


def decoder_input(target):
    """The target moved right by one: what the decoder has seen when it writes."""
    return torch.cat([torch.full_like(target[:, :1], START), target[:, :-1]], dim=1)


def decode_text(tokens):
    return ["".join(TARGET_CHARACTERS[i] for i in row) for row in tokens.tolist()]


# --------------------------------------------------------------------------
# The recurrent model
# --------------------------------------------------------------------------

class AdditiveAttention(nn.Module):
    """score(q, k) = w_v . tanh(W_q q + W_k k), softmax over the valid keys."""

    def __init__(self, query_size, key_size, num_hiddens):
        super().__init__()
        self.W_q = nn.Linear(query_size, num_hiddens, bias=False)
        self.W_k = nn.Linear(key_size, num_hiddens, bias=False)
        self.w_v = nn.Linear(num_hiddens, 1, bias=False)

    def forward(self, queries, keys, values, valid_lens, projected_keys=None):
        """(B,M,Dq), (B,N,Dk), (B,N,Dv), (B,) -> output (B,M,Dv), weights (B,M,N).

        `projected_keys`, W_k applied to the keys, may be given when many calls
        share their keys."""
        if projected_keys is None:
            projected_keys = self.W_k(keys)
        hidden = torch.tanh(self.W_q(queries)[:, :, None, :] + projected_keys[:, None, :, :])
        scores = self.w_v(hidden).squeeze(-1)
        scores = scores.masked_fill(padding_mask(keys.shape[1], valid_lens)[:, None, :], -math.inf)
        weights = torch.softmax(scores, dim=-1)
        return weights @ values, weights


def padding_mask(length, valid_lens):
    """(B,length), true where there is padding."""
    return torch.arange(length) >= valid_lens[:, None]


def reverse_valid(x, valid_lens):
    """Reverse the valid part of each sequence of (B,N,D); padding stays behind."""
    positions = torch.arange(x.shape[1]).expand(x.shape[0], -1)
    reversed_positions = valid_lens[:, None] - 1 - positions
    index = torch.where(reversed_positions >= 0, reversed_positions, positions)
    return x.gather(1, index[:, :, None].expand_as(x))


class BidirectionalGRU(nn.Module):
    """Two GRUs, of which one reads each sentence from its own end."""

    def __init__(self, embedding_size, hidden_size):
        super().__init__()
        self.embedding = nn.Embedding(SOURCE_SIZE, embedding_size)
        self.forwards = nn.GRU(embedding_size, hidden_size, batch_first=True)
        self.backwards = nn.GRU(embedding_size, hidden_size, batch_first=True)

    def forward(self, source, valid_lens):
        x = self.embedding(source)
        ahead, _ = self.forwards(x)
        back, _ = self.backwards(reverse_valid(x, valid_lens))
        return torch.cat([ahead, reverse_valid(back, valid_lens)], dim=-1)


class AttentionDecoder(nn.Module):
    """A GRU that asks with its state, then reads the answer and the last character.

    Its first state is learned and the same for all sentences: whatever it knows
    of the sentence has come through the attention."""

    def __init__(self, embedding_size, hidden_size, key_size, num_hiddens):
        super().__init__()
        self.embedding = nn.Embedding(len(TARGET_CHARACTERS) + 1, embedding_size)
        self.attention = AdditiveAttention(hidden_size, key_size, num_hiddens)
        self.cell = nn.GRUCell(embedding_size + key_size, hidden_size)
        self.first_state = nn.Parameter(torch.zeros(hidden_size))
        self.dense = nn.Linear(hidden_size, len(TARGET_CHARACTERS))

    def start(self, keys):
        return self.first_state.expand(keys.shape[0], -1), self.attention.W_k(keys)

    def step(self, token, state, keys, projected_keys, valid_lens):
        context, _ = self.attention(state[:, None], keys, keys, valid_lens, projected_keys)
        state = self.cell(torch.cat([self.embedding(token), context[:, 0]], dim=-1), state)
        return self.dense(state), state


class Recurrent(nn.Module):
    def __init__(self, embedding_size=32, encoder_hidden=48, decoder_hidden=64, num_hiddens=64):
        super().__init__()
        self.encoder = BidirectionalGRU(embedding_size, encoder_hidden)
        self.decoder = AttentionDecoder(embedding_size, decoder_hidden, 2 * encoder_hidden, num_hiddens)

    def forward(self, source, valid_lens, target=None, record=None):
        """Logits (B,10,C). With a target: teacher forcing. Without: greedy decoding.

        `record`, a dict, receives what passes through the attention layer."""
        keys = self.encoder(source, valid_lens)
        state, projected_keys = self.decoder.start(keys)
        token = torch.full((source.shape[0],), START)
        queries, logits = [], []
        for t in range(TARGET_LENGTH):
            queries.append(state)
            scores, state = self.decoder.step(token, state, keys, projected_keys, valid_lens)
            logits.append(scores)
            token = scores.argmax(-1) if target is None else target[:, t]
        if record is not None:
            queries = torch.stack(queries, dim=1)
            output, weights = self.decoder.attention(queries, keys, keys, valid_lens)
            record["recurrent.decoder.attention"] = dict(
                queries=queries, keys=keys, values=keys, valid_lens=valid_lens,
                output=output, attention_weights=weights)
        return torch.stack(logits, dim=1)


# --------------------------------------------------------------------------
# The Transformer
# --------------------------------------------------------------------------

def attend(layer, queries, keys, name=None, record=None, valid_lens=None, **masks):
    """An nn.MultiheadAttention whose values are its keys, and a note of what passed."""
    output, weights = layer(queries, keys, keys, need_weights=record is not None,
                            average_attn_weights=False, **masks)
    if record is not None:
        memory = {} if keys is queries else dict(keys=keys, values=keys)
        record[name] = dict(queries=queries, **memory, valid_lens=valid_lens,
                            output=output, attention_weights=weights)
    return output


class FeedForward(nn.Sequential):
    def __init__(self, width, hidden):
        super().__init__(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward net, each after a layer norm."""

    def __init__(self, width, heads, hidden):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed_forward = FeedForward(width, hidden)

    def forward(self, x, valid_lens, record):
        h = self.norm1(x)
        x = x + attend(self.self_attn, h, h, "transformer.encoder.self_attn", record, valid_lens,
                       key_padding_mask=padding_mask(x.shape[1], valid_lens))
        return x + self.feed_forward(self.norm2(x))


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the source, and a feed-forward net."""

    def __init__(self, width, heads, hidden):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed_forward = FeedForward(width, hidden)

    def forward(self, x, memory, valid_lens, record):
        batch, length, _ = x.shape
        h = self.norm1(x)
        seen = torch.arange(1, length + 1).repeat(batch, 1)  # row i sees i+1 characters
        x = x + attend(self.self_attn, h, h, "transformer.decoder.self_attn", record, seen,
                       attn_mask=padding_mask(length, seen[0]))
        x = x + attend(self.cross_attn, self.norm2(x), memory, "transformer.decoder.cross_attn", record,
                       valid_lens, key_padding_mask=padding_mask(memory.shape[1], valid_lens))
        return x + self.feed_forward(self.norm3(x))


class Encoder(nn.Module):
    def __init__(self, width, heads, hidden, layers):
        super().__init__()
        self.embedding = nn.Embedding(SOURCE_SIZE, width)
        self.position = nn.Embedding(MAX_SOURCE, width)
        self.layers = nn.ModuleList(EncoderLayer(width, heads, hidden) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, source, valid_lens, record):
        x = self.embedding(source) + self.position.weight[:source.shape[1]]
        for i, layer in enumerate(self.layers):
            x = layer(x, valid_lens, record if i == 0 else None)
        return self.norm(x)


class Decoder(nn.Module):
    def __init__(self, width, heads, hidden, layers):
        super().__init__()
        self.embedding = nn.Embedding(len(TARGET_CHARACTERS) + 1, width)
        self.position = nn.Embedding(TARGET_LENGTH, width)
        self.layers = nn.ModuleList(DecoderLayer(width, heads, hidden) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.dense = nn.Linear(width, len(TARGET_CHARACTERS))

    def forward(self, tokens, memory, valid_lens, record):
        x = self.embedding(tokens) + self.position.weight[:tokens.shape[1]]
        for i, layer in enumerate(self.layers):
            x = layer(x, memory, valid_lens, record if i == 0 else None)
        return self.dense(self.norm(x))


class Transformer(nn.Module):
    def __init__(self, width=64, heads=4, hidden=128, encoder_layers=2, decoder_layers=1):
        super().__init__()
        self.encoder = Encoder(width, heads, hidden, encoder_layers)
        self.decoder = Decoder(width, heads, hidden, decoder_layers)

    def forward(self, source, valid_lens, target=None, record=None):
        """As `Recurrent.forward`."""
        memory = self.encoder(source, valid_lens, record)
        if target is not None:
            return self.decoder(decoder_input(target), memory, valid_lens, record)
        tokens = torch.full((source.shape[0], 1), START)
        for _ in range(TARGET_LENGTH):
            logits = self.decoder(tokens, memory, valid_lens, record)
            tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], dim=1)
        return logits


# --------------------------------------------------------------------------
# Training and evaluation
# --------------------------------------------------------------------------

BATCH = 128
POOL = 64  # batches made at a time, out of sentences sorted by length


def batches(dates, rng, seen):
    """Endless training batches of sentences of about the same length."""
    while True:
        pairs = write_pairs(rng.choices(dates, k=BATCH * POOL), rng, seen)
        pairs.sort(key=lambda pair: len(pair[0]))
        pool = [pairs[i:i + BATCH] for i in range(0, len(pairs), BATCH)]
        rng.shuffle(pool)
        yield from map(encode_batch, pool)


def train(name, model, steps, peak_rate, dates, seed, seen):
    """Adam with a short warm-up and a cosine decay. Returns the seconds it took."""
    began = time.monotonic()
    optimizer = torch.optim.Adam(model.parameters(), lr=peak_rate, betas=(0.9, 0.98))
    warm_up = min(200, steps)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: (
        (i + 1) / warm_up if i < warm_up else
        0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (i - warm_up) / max(1, steps - warm_up)))))
    source = batches(dates, random.Random(seed), seen)
    mean_loss = 0.0
    model.train()
    for step in range(1, steps + 1):
        text, valid_lens, target = next(source)
        logits = model(text, valid_lens, target)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        mean_loss += loss.item()
        if step % 250 == 0 or step == steps:
            count = (step - 1) % 250 + 1
            print(f"{name}: step {step}/{steps}, loss {mean_loss / count:.5f}, "
                  f"{time.monotonic() - began:.0f} s", flush=True)
            mean_loss = 0.0
    return time.monotonic() - began


@torch.no_grad()
def translate(model, pairs):
    """Greedy decoding of all sentences."""
    model.eval()
    answers = []
    for i in range(0, len(pairs), 256):
        source, valid_lens, _ = encode_batch(pairs[i:i + 256])
        answers += decode_text(model(source, valid_lens).argmax(-1))
    return answers


# --------------------------------------------------------------------------
# The data that is written
# --------------------------------------------------------------------------

MAX_SHOWN = 31  # characters; keeps the files small

# One sentence for each, the first held-out one that both models read correctly.
SHOWN = [
    r"[A-Z]\w+day,? (the )?\d+(st|nd|rd|th) of [A-Z]\w{2,} \d{4}",
    r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun),? \d\d/\d\d/\d\d",
    r"[A-Z]\w+, (den )?\d\d?\. \w*[äöü]\w* \d{4}|[A-Z]\w+tag,? (den )?\d\d?\. [A-Z]\w{4,} \d{4}",
    r"[a-z]+di,? (le )?\d+ (février|août|décembre) \d{4}",
    r"(el )?\d\d? de (enero|febrero|marzo|octubre|noviembre|diciembre) de \d{4}",
    r"[a-z]+edì,? \d\d? [a-z]{5,} \d{4}",
    r"(op )?\d\d? (maart|mei|augustus|oktober) \d{4}",
    r"\w+-feira,? \d\d? de \w+ de \d\d",
    r"[A-Z][a-z]{3,} \d+(st|nd|rd|th),? \d{4}",
    r"\d{4}-\d\d-\d\d",
    r"\d\d?\.\d\.\d{4}",
    r"\d\d?-[a-z]{3}-\d\d",
]


def choose_sentences(pairs, correct):
    chosen = []
    for pattern in SHOWN:
        chosen += [pair for pair, good in zip(pairs, correct)
                   if good and len(pair[0]) <= MAX_SHOWN and re.fullmatch(pattern, pair[0])][:1]
    return chosen


def write_safetensors(path, tensors):
    """Header length (8 bytes, little-endian), JSON header, then the raw numbers."""
    header, parts, offset = {}, [], 0
    for name, tensor in tensors.items():
        data = np.ascontiguousarray(tensor.detach().numpy(), dtype="<f4").tobytes()
        header[name] = dict(dtype="F32", shape=list(tensor.shape), data_offsets=[offset, offset + len(data)])
        parts.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def write_npz(path, arrays):
    """Uncompressed; numbers as f32, lengths as i32."""
    np.savez(path, **{name: np.ascontiguousarray(
        array.detach().numpy(), dtype="<f4" if array.is_floating_point() else "<i4")
        for name, array in arrays.items()})


def write_labels(path, blocks):
    """One label a line, one block a sentence, a blank line between the blocks."""
    path.write_text("\n".join("".join(f"{'␣' if label == ' ' else label}\n" for label in block)
                              for block in blocks), encoding="utf-8")


def select(model, *prefixes):
    return {name: tensor for name, tensor in model.state_dict().items() if name.startswith(prefixes)}


@torch.no_grad()
def write_data(out, recurrent, transformer, chosen):
    """Everything but the README. Returns the arrays of each layer."""
    source, valid_lens, target = encode_batch(chosen)
    record = {}
    for model in (recurrent, transformer):
        # In training mode (there is no dropout) PyTorch takes the plain path
        # through nn.MultiheadAttention, which masks with -inf as written.
        model.train()
        model(source, valid_lens, target, record)
    for name, arrays in record.items():
        write_npz(out / f"{name}.npz", arrays)
    write_safetensors(out / "recurrent.safetensors",
                      select(recurrent, "decoder.attention.", "decoder.first_state", "decoder.embedding.", "decoder.dense."))
    write_safetensors(out / "transformer.safetensors",
                      select(transformer, "encoder.layers.0.self_attn.", "decoder.layers.0.self_attn.",
                             "decoder.layers.0.cross_attn.", "decoder.dense."))
    write_labels(out / "source.labels.txt", [text for text, _ in chosen])
    write_labels(out / "target.labels.txt", [iso for _, iso in chosen])
    write_labels(out / "target.inputs.labels.txt", [["<s>", *iso[:-1]] for _, iso in chosen])
    (out / "sentences.txt").write_text("".join(f"{text}\t{iso}\n" for text, iso in chosen), encoding="utf-8")
    return record


README = """\
# Dates: two trained models and what reaches their attention layers

Made by

    python3 tools/train_dates.py --out tests/data/dates --seed {seed} --threads {threads}

with Python {python}, PyTorch {torch} and NumPy {numpy} on {machine}. The same
seed, versions, thread count and kind of processor give the same files; other
ones give other weights of about the same quality.

Both models read a written date character by character and write ISO 8601. The
dates are those from {first} to {last}: {train_dates} to train on (written anew
each time, in English, German, French, Spanish, Italian, Dutch, Portuguese or
in numbers) and {held_out} held out, never seen in training in any form. How a written
date is to be read (day first, two-digit years, ...) is said at the top of the
script.

| model | parameters | steps of {batch} | training time | held-out dates right (greedy, whole date) |
|---|---|---|---|---|
{rows}
## Layers

{layers}
Sizes: B sentences, M queries (rows), N keys (columns), H heads; padding is
whatever the model holds there, not zeros.

## Files

* `recurrent.safetensors`: `decoder.attention.`, the attention layer (`W_q`, `W_k`,
  `w_v`, no biases), and small tensors from around it.
* `transformer.safetensors`: three layers with the names that
  torch.nn.MultiheadAttention gives, under the prefixes
  `encoder.layers.0.self_attn.`, `decoder.layers.0.self_attn.` and
  `decoder.layers.0.cross_attn.`, and the output layer `decoder.dense.`.
* `<layer>.npz`: what reached the layer on the {sentences} sentences below:
  `queries`, `keys`, `values` (the last two only if they are other tensors than
  the queries; keys and values are equal in these models), `valid_lens`, and what
  PyTorch made of it in f32: `output` and `attention_weights` (one matrix per head where
  there are heads). For the recurrent model the M queries are the decoder's states
  before it writes each of the ten characters.
* `sentences.txt`: written date, tab, ISO date; held out, right in both models.
* `source.labels.txt`: labels of the source positions (valid ones only), one a
  line, a blank line between sentences, U+2423 for a space.
* `target.labels.txt`: labels of the decoder's rows: the character written there.
* `target.inputs.labels.txt`: labels of the keys of the decoder's self-attention:
  the character read there, `<s>` first.

All files have the sentences in the same order.

## Licence

The dates are generated by the script and the weights learned from them: nothing
here comes from elsewhere. Apache-2.0, like the project.
"""


def describe_layers(record):
    lines = []
    for name, arrays in record.items():
        shapes = ", ".join(f"{key} {tuple(array.shape)}" for key, array in arrays.items())
        weights = arrays["attention_weights"]
        peaks = weights.amax(-1).mean(-1).mean(0).reshape(-1).tolist()
        lines.append(f"* `{name}`: {shapes}; mean of the largest weight of each row"
                     f"{', by head' if len(peaks) > 1 else ''}: {', '.join(f'{peak:.2f}' for peak in peaks)}\n")
    return "".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR",
                        help="where to write (default: tests/data/dates; with --quick a temporary directory)")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--threads", type=int, default=1, metavar="N",
                        help="for PyTorch (default 1; more help little, and give other weights)")
    parser.add_argument("--quick", action="store_true", help="a few steps only, to see that the script runs")
    args = parser.parse_args()
    out = args.out
    if out is None:
        out = (pathlib.Path(tempfile.mkdtemp(prefix="dates-")) if args.quick else
               pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "dates")
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(args.threads)

    train_dates, held_out_dates = split_dates(args.seed)
    seen = {}
    held_out = write_pairs(held_out_dates, random.Random(args.seed + 1), seen)
    if args.quick:
        held_out = held_out[:500]

    correct = [True] * len(held_out)
    models, rows = {}, ""
    for name, build, steps, peak_rate in (("recurrent", Recurrent, 2000, 4e-3),
                                          ("transformer", Transformer, 3000, 2e-3)):
        torch.manual_seed(args.seed)
        model = models[name] = build()
        steps = 20 if args.quick else steps
        seconds = train(name, model, steps, peak_rate, train_dates, args.seed + 2, seen)
        answers = translate(model, held_out)
        right = [answer == iso for answer, (_, iso) in zip(answers, held_out)]
        for (text, iso), answer in [pair for pair in zip(held_out, answers) if pair[0][1] != pair[1]][:10]:
            print(f"  wrong: {text!r}: {answer}, not {iso}")
        if not args.quick:
            correct = [a and b for a, b in zip(correct, right)]
        parameters = sum(p.numel() for p in model.parameters())
        rows += (f"| {name} | {parameters} | {steps} | {seconds:.0f} s | "
                 f"{sum(right)} of {len(right)} ({100 * sum(right) / len(right):.2f} %) |\n")
        print(rows.splitlines()[-1])

    chosen = choose_sentences(held_out, correct)
    record = write_data(out, models["recurrent"], models["transformer"], chosen)
    (out / "README.md").write_text(README.format(
        seed=args.seed, threads=args.threads, python=platform.python_version(), torch=torch.__version__,
        numpy=np.__version__, machine=f"{platform.machine()}, {args.threads} thread(s)", first=FIRST_DAY,
        last=LAST_DAY, train_dates=len(train_dates), held_out=len(held_out_dates), batch=BATCH, rows=rows,
        layers=describe_layers(record), sentences=len(chosen)), encoding="utf-8")
    print(f"wrote {sum(f.stat().st_size for f in out.iterdir())} bytes to {out}")


if __name__ == "__main__":
    main()
