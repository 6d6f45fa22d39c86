"""Small repositories in three languages that the planning tests look at."""

from __future__ import annotations

from pathlib import Path

PYTHON = {
    "README.md": "# Shop\n\nThe total of an order is what `order_total` says.\n",
    "pyproject.toml": '[project]\nname = "shop"\n',
    ".env": "SECRET_TOKEN=1\n",
    ".gitignore": "build/\n",
    "build/generated.py": "def order_total():\n    pass\n",
    "shop/__init__.py": 'from shop.orders import order_total\n\n__all__ = ["order_total"]\n',
    "shop/orders.py": '''\
"""Orders."""

from __future__ import annotations

from shop.rates import VAT_RATE, rounded

SHIPPING_COST = 5


class Order:
    """Lines that were ordered; order_total adds them up."""

    def __init__(self, lines):
        self.lines = lines

    def total(self):
        return sum(line.price for line in self.lines)

    def is_empty(self):
        return not self.lines


def order_total(order):
    net = order.total() + SHIPPING_COST
    return rounded(net * (1 + VAT_RATE))


def describe(order):
    def line_text(line):
        return f"{line.name}: {order_total(order)}"

    return [line_text(line) for line in order.lines]
''',
    "shop/rates.py": '''\
"""Rates."""

VAT_RATE = 0.25
OTHER_RATE = 0.1


def rounded(amount):
    return round(amount, 2)


def unrelated_rate():
    return OTHER_RATE
''',
    "shop/report.py": '''\
"""Reports."""

from shop.orders import Order, order_total


def report_lines(orders):
    return [f"{order_total(order):.2f}" for order in orders if not order.is_empty()]


if __name__ == "__main__":
    print(order_total(Order([])))
''',
    "shop/cli.py": '''\
"""The command line."""

import argparse

from shop.report import report_lines


def build_parser():
    parser = argparse.ArgumentParser(prog="shop")
    parser.add_argument("--currency", default="EUR")
    parser.add_argument("files", nargs="*")
    return parser


def helper_of_nothing():
    return 1


def main(argv=None):
    args = build_parser().parse_args(argv)
    for line in report_lines(args.files):
        print(line, args.currency)
''',
    "tests/test_orders.py": """\
from shop.orders import Order, order_total


def test_total_of_nothing():
    assert order_total(Order([])) == 6.25


def test_patched(monkeypatch):
    monkeypatch.setattr("shop.orders.order_total", None)
""",
}

SCRIPT = {
    "package.json": '{"name": "shop", "scripts": {"test": "vitest"}}\n',
    "src/cart.ts": """\
import { toCents } from "./money";

export interface CartItem {
  price: number;
}

export class Cart {
  items: CartItem[] = [];

  grandTotal(): number {
    return this.items.reduce((sum, item) => sum + toCents(item.price), 0);
  }
}

export const emptyCart = (): Cart => new Cart();
""",
    "src/money.ts": "export function toCents(amount: number): number {\n  return amount * 100;\n}\n",
    "src/index.ts": 'export { Cart } from "./cart";\n',
    "bin/run.js": """\
const { Command } = require("commander");
const { emptyCart } = require("../src/cart");

const program = new Command();

function declareOptions(program) {
  program.option("-c, --currency <code>", "currency");
  program.option("-q, --quiet");
}

function run() {
  declareOptions(program);
  program.parse();
  const options = program.opts();
  if (!options.quiet) console.log(emptyCart().grandTotal());
}

run();
""",
    "test/cart.test.ts": """\
import { Cart } from "../src/cart";

test("nothing costs nothing", () => {
  expect(new Cart().grandTotal()).toBe(0);
});
""",
}

GO = {
    "go.mod": "module example.org/shop\n\ngo 1.21\n",
    "main.go": """\
package main

import (
	"flag"
	"fmt"

	"example.org/shop/orders"
)

var currency = flag.String("currency", "EUR", "currency")

func main() {
	flag.Parse()
	fmt.Println(orders.OrderTotal(nil), *currency)
}
""",
    "orders/orders.go": """\
package orders

// OrderTotal adds up.
func OrderTotal(lines []Line) int {
	sum := 0
	for _, line := range lines {
		sum += line.PriceWithTax()
	}
	return roundedSum(sum)
}
""",
    "orders/line.go": """\
package orders

const taxPercent = 25

type Line struct {
	Price int
}

func (l Line) PriceWithTax() int {
	return l.Price + l.Price*taxPercent/100
}

func roundedSum(sum int) int {
	return sum
}
""",
    "orders/orders_test.go": """\
package orders

import "testing"

func TestOrderTotal(t *testing.T) {
	if OrderTotal(nil) != 0 {
		t.Fatal("not 0")
	}
}
""",
}


def make_repository(folder: Path, files: dict[str, str]) -> Path:
    """Write files into a folder that is the top of a repository."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    (folder / ".git").mkdir(exist_ok=True)
    return folder


def line_count(text: str) -> int:
    """A tokenizer for tests that is never cheaper than a word: counts words and line ends."""
    return len(text.split()) + text.count("\n")
