from flask import Flask, abort, render_template
from jinja2 import DictLoader

from ledger import Ledger

MACROS = """
{%- macro money(cents) -%}
  {%- if cents < 0 -%}<span class="neg">-{{ "%.2f"|format(-cents / 100) }}</span>
  {%- else -%}{{ "%.2f"|format(cents / 100) }}{%- endif -%}
{%- endmacro -%}
{%- macro badge(kind) -%}
  {%- if kind == "fee" -%}<b class="fee">{{ kind }}</b>
  {%- elif kind == "refund" -%}<b class="refund">{{ kind }}</b>
  {%- else -%}<i>{{ kind }}</i>{%- endif -%}
{%- endmacro -%}
{%- macro field(label, value, hint="") -%}
  <div class="field"><label>{{ label }}</label><span>{{ value }}</span>
  {%- if hint %}<small>{{ hint }}</small>{% endif -%}</div>
{%- endmacro -%}
"""

STATEMENT = MACROS + """
<!doctype html>
<html><head><title>Statement {{ month }} for {{ customer.name }}</title></head>
<body>
<header>
  {{ field("Customer", customer.name, "no. %05d"|format(customer.number)) }}
  {{ field("Month", "%02d/2026"|format(month)) }}
  {{ field("Overdraft", money(customer.limit * 100), "agreed" if customer.limit else "none") }}
</header>
<p>Opening balance {{ money(opening) }}</p>
<table>
<tr><th>Day</th><th>Kind</th><th>Reference</th><th>Amount</th><th>Balance</th></tr>
{%- for row in rows %}
<tr class="{{ loop.cycle('odd', 'even') }}">
  <td>{{ row.day.strftime("%d.%m.") }}</td><td>{{ badge(row.kind) }}</td><td>{{ row.ref|lower }}</td>
  <td>{{ money(row.cents) }}</td>
  <td>{{ money(row.balance) }}{% if row.balance < -100 * customer.limit %} !{% endif %}</td>
</tr>
{%- else %}
<tr><td colspan="5">No movements this month.</td></tr>
{%- endfor %}
</table>
<ul>{% for kind, cents in totals %}<li>{{ badge(kind) }}: {{ money(cents) }}</li>{% endfor %}</ul>
<footer>
{%- if closing < -100 * customer.limit %}
  <p class="warn">You are over your limit by {{ money(-closing - 100 * customer.limit) }}.</p>
{%- elif closing < 0 %}
  <p>Your account is overdrawn within the agreed limit.</p>
{%- else %}
  <p>Closing balance {{ money(closing) }}</p>
{%- endif %}
</footer>
</body></html>
"""


def create_app(seed=404, customers=150):
    app = Flask(__name__)
    app.jinja_loader = DictLoader({"statement.html": STATEMENT})
    ledger = Ledger(seed, customers)

    @app.get("/statement/<int:number>/<int:month>")
    def statement(number, month):
        if number not in ledger.customers or not 1 <= month <= 12:
            abort(404)
        return render_template("statement.html", **ledger.statement(number, month))

    @app.get("/balance/<int:number>")
    def balance(number):
        if number not in ledger.customers:
            abort(404)
        return {"number": number, "cents": sum(e["cents"] for e in ledger.entries[number])}

    return app
