"""How much personal data redaction masks, how much other text it masks by mistake, and its cost.

    python -m benchmarks.redaction [--each 400] [--seed 1]

A seeded set: for each declared type, invented values with valid check digits, in common notations, in sentences, lists,
tables, JSON and code in several languages. A value is masked when none of its notations is left in any text of the
case. The set is our own and knows the patterns, so it shows that they find the forms named here, but not how people
write elsewhere; names, addresses and data in words belong to no declared type.

Conversely: the same frames around values that are not personal data (order numbers, versions, dates, private
addresses, office mailboxes), none of which should be masked.
"""

from __future__ import annotations

import argparse
import ipaddress
import random
import statistics
import string
import time
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.table import Table

from monitor.model.case import Case, Document, Request
from monitor.privacy.detectors import luhn
from monitor.privacy.pseudonyms import UserKey
from monitor.privacy.redaction import RedactionSettings, Redactor
from monitor.privacy.redaction.masking import DataType
from monitor.telemetry.metrics import Metrics

Draw = random.Random

FRAMES = (
    "Please use {0} from now on.",
    "{0}",
    'My colleague said: "{0}" - is that right?',
    "Bitte nehmen Sie {0}, danke!",
    "Voici : {0}.",
    "| name | value |\n|---|---|\n| contact | {0} |",
    '{{"customer": {{"value": "{0}", "since": 2019}}}}',
    "- first\n- {0}\n- last",
    "It is {0}; the rest follows by post.",
    "(see {0})",
    "value={0}\nother=1",
)
"""Frames for a value. Types that are recognised by a word before them include that word."""

_FIRST = ("ada", "lena", "jose", "wei", "amara", "ole", "piotr", "zoe", "j", "maria.luisa", "o_neill", "k-9")
_LAST = ("lovelace", "mueller", "garcia", "zhang", "okafor", "hansen", "kowalski", "dubois", "smith", "x")
_HOSTS = ("gmail.com", "web.de", "mail.org.uk", "orange.fr", "sub.firma-online.de", "uni.edu", "qq.com", "proton.me")


def _digits(draw: Draw, count: int) -> str:
    return "".join(draw.choices(string.digits, k=count))


def _email(draw: Draw) -> str:
    local = f"{draw.choice(_FIRST)}{draw.choice(('.', '_', '-', '+', ''))}{draw.choice(_LAST)}{draw.choice(('', '7'))}"
    text = f"{local}@{draw.choice(_HOSTS)}"
    return draw.choice((text, text, text.title(), text.upper(), text.replace("@", " (at) ")))


def _phone(draw: Draw) -> str:
    area, rest = draw.randint(201, 799), draw.randint(2_000_000, 9_999_999)
    mid, last = f"{rest}"[:3], f"{rest}"[3:]
    return draw.choice(
        (
            f"+49 {draw.randint(30, 999)} {_digits(draw, 7)}",
            f"+1 {area} {mid} {last}",
            f"+33 {draw.randint(1, 7)} {' '.join(_digits(draw, 2) for _ in range(4))}",
            f"+44{draw.randint(1000000000, 7999999999)}",
            f"0041 {draw.randint(21, 79)} {_digits(draw, 3)} {_digits(draw, 2)} {_digits(draw, 2)}",
            f"({area}) {mid}-{last}",
            f"{area}-{mid}-{last}",
            f"0{draw.randint(1, 7)} {' '.join(_digits(draw, 2) for _ in range(4))}",
            f"phone: {_digits(draw, 10)}",
            f"Telefon 0{draw.randint(30, 899)}/{draw.randint(100000, 9999999)}",
        )
    )


def _card(draw: Draw) -> str:
    start, length = draw.choice((("4", 16), ("51", 16), ("55", 16), ("2221", 16), ("34", 15), ("37", 15), ("6011", 16)))
    body = start + _digits(draw, length - len(start) - 1)
    number = next(f"{body}{last}" for last in string.digits if luhn(f"{body}{last}"))
    size = draw.choice((0, 4))
    gap = draw.choice((" ", "-"))
    return gap.join(number[at : at + 4] for at in range(0, len(number), 4)) if size else number


def _iban(draw: Draw) -> str:
    country, body = draw.choice(
        (
            ("DE", _digits(draw, 18)),
            ("FR", _digits(draw, 23)),
            ("GB", f"WEST{_digits(draw, 14)}"),
            ("ES", _digits(draw, 20)),
        )
    )
    moved = "".join(str(int(one, 36)) for one in f"{body}{country}00")
    whole = f"{country}{98 - int(moved) % 97:02d}{body}"
    return draw.choice((whole, " ".join(whole[at : at + 4] for at in range(0, len(whole), 4))))


def _national_id(draw: Draw) -> str:
    number = draw.randint(10_000_000, 99_999_999)
    cpf = [draw.randint(0, 9) for _ in range(9)]
    for most in (10, 11):
        total = sum(digit * weight for digit, weight in zip(cpf, range(most, 1, -1), strict=True))
        cpf.append(total * 10 % 11 % 10)
    shown = "".join(map(str, cpf))
    born = f"{draw.randint(0, 99):02d}{draw.randint(1, 12):02d}"
    nir = f"{draw.choice('12')}{born}{draw.randint(1, 95):02d}{_digits(draw, 6)}"
    pesel = f"{draw.randint(0, 99):02d}{draw.randint(1, 12):02d}{draw.randint(1, 28):02d}{_digits(draw, 4)}"
    total = sum(int(digit) * weight for digit, weight in zip(pesel, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3), strict=True))
    return draw.choice(
        (
            f"{draw.randint(1, 665):03d}-{draw.randint(1, 99):02d}-{draw.randint(1, 9999):04d}",
            f"{shown[:3]}.{shown[3:6]}.{shown[6:9]}-{shown[9:]}",
            f"{number}{'TRWAGMYFPDXBNJZSQVHLCKE'[number % 23]}",
            f"{nir}{97 - int(nir) % 97:02d}",
            f"{pesel}{(10 - total % 10) % 10}",
            f"AB {draw.randint(10, 99)} {draw.randint(10, 99)} {draw.randint(10, 99)} {draw.choice('ABCD')}",
        )
    )


def _passport(draw: Draw) -> str:
    word = draw.choice(("passport number", "Passport no.", "Reisepass", "passeport", "pasaporte"))
    number = draw.choice((f"C{_digits(draw, 8)}", _digits(draw, 9), f"{draw.choice('AXL')}{_digits(draw, 7)}"))
    return f"{word} {number}"


def _ip_address(draw: Draw) -> str:
    while True:
        v4, v6 = (
            ipaddress.IPv4Address(draw.getrandbits(32)),
            ipaddress.IPv6Address((0x2A << 120) + draw.getrandbits(120)),
        )
        found = draw.choice((v4, v4, v6))
        if found.is_global and not found.is_multicast:
            return str(found)


def _wallet(draw: Draw) -> str:
    base = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    return draw.choice(
        (
            f"0x{draw.getrandbits(160):040x}",
            f"1{''.join(draw.choices(base, k=31))}7",
            f"bc1q{''.join(draw.choices('023456789acdefghjklmnpqrstuvwxyz', k=37))}7",
        )
    )


def _secret(draw: Draw) -> str:
    letters = string.ascii_letters + string.digits
    some = "".join(draw.choices(letters, k=36))
    return draw.choice(
        (
            "AKIA" + "".join(draw.choices(string.ascii_uppercase + string.digits, k=16)),
            f"sk-proj-{some}7",
            f"ghp_{some}",
            f"password: {some[:5]}#{draw.randint(10, 99)}",
            f"postgres://app:{some[:9]}7@db.internal/main",
            f"eyJhbGciOiJIUzI1NiJ9.eyJ{some}.{some}",
            f"-----BEGIN RSA PRIVATE KEY-----\n{some}\n{some}\n-----END RSA PRIVATE KEY-----",
        )
    )


MADE: Mapping[DataType, Callable[[Draw], str]] = {
    DataType.EMAIL: _email,
    DataType.PHONE: _phone,
    DataType.CARD: _card,
    DataType.IBAN: _iban,
    DataType.NATIONAL_ID: _national_id,
    DataType.PASSPORT: _passport,
    DataType.IP_ADDRESS: _ip_address,
    DataType.WALLET: _wallet,
    DataType.SECRET: _secret,
}
"""An invented value of each type, with the preceding word if its type is recognised by one."""

_HARMLESS: tuple[Callable[[Draw], str], ...] = (
    lambda draw: f"order {draw.randint(100, 999)}-{draw.randint(100, 999)}-{draw.randint(1000, 9999)}",
    lambda draw: f"version {draw.randint(1, 9)}.{draw.randint(0, 20)}.{draw.randint(0, 20)}.{draw.randint(0, 9)}",
    lambda draw: f"20{draw.randint(10, 29)}-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}",
    lambda draw: f"192.168.{draw.randint(0, 255)}.{draw.randint(1, 254)}",
    lambda draw: draw.choice(("support@library.org", "info@city.example", "jane@example.com", "no-reply@shop.io")),
    lambda draw: f"{draw.randint(1, 999)},{draw.randint(100, 999)},{draw.randint(100, 999)}.{draw.randint(10, 99)} EUR",
    lambda draw: f"ISBN 978-{draw.randint(0, 9)}-{draw.randint(10, 99)}-{_digits(draw, 6)}-{draw.randint(0, 9)}",
    lambda draw: f"{draw.getrandbits(128):032x}",
    lambda draw: f"ticket #{draw.randint(100000, 9999999)}",
    lambda _: "Set `password: <your password>`",
    lambda _: "your passport documents are important",
)


def bare_value(kind: DataType, written: str) -> str:
    """Return the part that must be gone of a value written with a word before it, or within an address."""
    if kind is DataType.PASSPORT:
        return written.rsplit(" ", 1)[-1]
    if kind is DataType.PHONE and written[0].isalpha():
        return written.split(" ", 1)[-1]
    if kind is DataType.SECRET and written.startswith("password"):
        return written.split(" ", 1)[-1]
    if kind is DataType.SECRET and written.startswith("postgres"):
        return written.split("app:", 1)[-1].split("@", maxsplit=1)[0]
    return written


def _redactor() -> Redactor:
    return Redactor(RedactionSettings(enabled=True), UserKey(b"k" * 32), Metrics())


def survivors(each: int, seed: int) -> dict[DataType, list[str]]:
    """Return those of `each` values of each type of which something was left, in their frames."""
    redactor, found = _redactor(), dict[DataType, list[str]]()
    for kind, make in MADE.items():
        draw = random.Random(f"{seed}/{kind}")
        found[kind] = []
        for number in range(each):
            written = make(draw)
            text = draw.choice(FRAMES).format(written)
            case = redactor.redact(Case(request_id=str(number), response=text)).case
            if bare_value(kind, written) in case.response:
                found[kind].append(text)
    return found


def taken_for_personal(number: int, seed: int) -> list[str]:
    """Return the harmless texts in which something was masked."""
    redactor, draw, found = _redactor(), random.Random(f"{seed}/harmless"), []
    for at in range(number):
        text = draw.choice(FRAMES).format(draw.choice(_HARMLESS)(draw))
        if redactor.redact(Case(request_id=str(at), response=text)).case.response != text:
            found.append(text)
    return found


def _case(draw: Draw, characters: int, values: int) -> Case:
    words = (
        "the",
        "warranty",
        "covers",
        "parts",
        "for",
        "two",
        "years",
        "and",
        "claims",
        "are",
        "made",
        "in",
        "a",
        "month",
    )

    def text(count: int, of: int) -> str:
        said = draw.choices(words, k=count // 6)
        for _ in range(of):
            said.insert(draw.randrange(len(said)), draw.choice([MADE[kind] for kind in MADE])(draw))
        return " ".join(said)

    documents = tuple(Document(text(characters // 6, values // 2)) for _ in range(5))
    return Case(
        request_id="1" * 32,
        request=Request(text(200, values // 2)),
        retrieved_context=documents,
        response=text(characters // 6, values // 2),
    )


def seconds(characters: int, values: int, repeats: int = 15) -> float:
    """Return the median time for a case of about this many characters, with about this many values in each text."""
    redactor, draw, taken = _redactor(), random.Random(7), []
    for _ in range(repeats):
        case = _case(draw, characters, values)
        began = time.perf_counter()
        redactor.redact(case)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=400, help="values of each type")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    console = Console()
    table = Table("type", "values", "masked", "recall", "for instance left")
    for kind, left in survivors(given.each, given.seed).items():
        share = 1 - len(left) / given.each
        table.add_row(
            kind.value, str(given.each), str(given.each - len(left)), f"{share:.1%}", repr(left[0]) if left else ""
        )
    console.print(table)
    wrong = taken_for_personal(given.each * 5, given.seed)
    console.print(f"harmless texts: {given.each * 5}, of which something was masked: {len(wrong)} {wrong[:3]}")
    cost = Table("characters", "values in each text", "ms a case (median)")
    for characters in (2_000, 10_000, 50_000):
        for values in (0, 4, 40):
            cost.add_row(f"{characters:,}", str(values // 2), f"{seconds(characters, values) * 1e3:.2f}")
    console.print(cost)


if __name__ == "__main__":
    main()
