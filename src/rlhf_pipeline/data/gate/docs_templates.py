"""Page templates and styles of the Data Docs: the whole page in one file, no scripts, no other hosts.

Only looks; what the pages say comes from Great Expectations' renderers and docs.py.
"""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
:root { --ok: #2a8a3e; --bad: #c5302b; --warn: #b07500; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; }
h5 { font-size: 1.1rem; margin: 1.5rem 0 .5rem; }
h6 { font-size: 1rem; margin: 1rem 0 .3rem; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-weight: 600; }
th, td { padding: .45rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td table { font-size: .85rem; margin-top: .5rem; }
td td, td th { padding: .2rem .4rem; overflow-wrap: anywhere; }
td th, td td:nth-child(-n+3) { white-space: nowrap; }
td td:nth-child(4) { width: 25%; }
td td:nth-child(5) { width: 45%; }
.observed { white-space: nowrap; }
code, .badge { font: .85em ui-monospace, monospace; }
.badge { background: var(--soft); border-radius: .3rem; padding: .1rem .4rem; }
.text-success, .ok { color: var(--ok); }
.text-danger, .bad { color: var(--bad); }
.text-warning, .warn { color: var(--warn); }
.fas { font-style: normal; font-weight: 700; }
.fa-check-circle::before { content: "\\2713"; }
.fa-times::before { content: "\\2717"; }
.fa-exclamation-triangle::before { content: "!"; }
details { margin: 1rem 0; }
summary { cursor: pointer; }
a { color: inherit; }
nav { margin-bottom: 1rem; }
.quiet { opacity: .7; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
@media (max-width: 45rem) {
  body { margin: 1rem auto; }
  .figures { font-size: .85rem; }
  .figures th, .figures td { padding: .35rem .25rem; overflow-wrap: anywhere; }
  table:has(> thead th):not(.figures), table:has(> thead th):not(.figures) > tbody,
  table:has(> thead th):not(.figures) > tbody > tr { display: block; width: auto; }
  table:has(> thead th):not(.figures) > thead { display: none; }
  table:has(> thead th):not(.figures) > tbody > tr { padding: .5rem 0; border-bottom: 1px solid var(--line); }
  table:has(> thead th):not(.figures) > tbody > tr > td {
    display: block; width: auto; padding: .1rem .25rem; border: 0;
  }
  table:has(> thead th):not(.figures) > tbody > tr > td:first-child { float: left; }
  table:has(> thead th):not(.figures) td td:nth-child(-n+3) { display: inline; opacity: .7; }
  td td:nth-child(-n+3) * { display: inline; }
  td td:first-child { float: none !important; }
}
"""

HEAD = (
    '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    "<title>{% block title %}{{ page_title | default('Data gate') }}{% endblock %}</title>"
    f"<style>{STYLE}</style></head>\n<body>"
)

PAGE = (
    HEAD
    + """<nav><a href="index.html">All suites</a></nav>
{% for section in sections %}{% set section_loop = loop %}{% include 'section.j2' %}{% endfor %}
</body></html>
"""
)

COLLAPSE = """
<details><summary>{{ content_block.get("collapse_toggle_link", "More") | render_content_block }}</summary>
{% for block in content_block["collapse"] %}{{ block | render_content_block }}{% endfor %}
</details>
"""

INDEX = (
    HEAD
    + """
<h1>Data gate: {% if passes %}<span class="ok">the data passes</span>
{% else %}<span class="bad">the data does not pass</span>{% endif %}</h1>
{% if quarantined_rows %}<p><span class="warn">{{ '{:,}'.format(quarantined_rows) }}
{{- ' row was' if quarantined_rows == 1 else ' rows were' }} taken out</span>
and lie, with reasons, in the folder <a href="../quarantine/">quarantine</a>.
What follows was found before that.</p>
{% endif %}
{% if broken %}<h5>What does not hold</h5>
<table><thead><tr><th>Severity</th><th>Table</th><th>Expectation</th><th>Observed</th></tr></thead><tbody>
{% for one in broken %}<tr>
<td class="{{ 'bad' if one.severity == 'error' else 'warn' }}">{{ one.severity }}</td>
<td>{{ one.table }}</td>
<td>{{ one.statement }}<br><a href="{{ one.page }}"><code>{{ one.name }}</code></a></td>
<td class="{{ 'observed' if (one.observed | string | length) < 50 }}">{{ one.observed }}</td>
</tr>{% endfor %}
</tbody></table>{% endif %}
<h5>Suites</h5>
<table class="figures">
<thead><tr><th>Suite</th><th class="number">Checks</th><th class="number">Errors</th>
<th class="number">Warnings</th><th class="number">Seconds</th><th class="number">Rows/s</th></tr></thead>
<tbody>
{% for suite in suites %}<tr>
<td><a href="{{ suite.page }}">{{ suite.name }}</a></td>
<td class="number">{{ suite.findings | length }}</td>
<td class="number {{ 'bad' if suite.failed }}">{{ suite.failed }}</td>
<td class="number {{ 'warn' if suite.warned }}">{{ suite.warned }}</td>
<td class="number">{{ '%.2f' % suite.seconds }}</td>
<td class="number">{{ '{:,.0f}'.format(suite.rows_per_s) }}</td>
</tr>{% endfor %}
</tbody></table>
<h5>Rows</h5>
<table class="figures"><thead><tr><th>Table</th><th class="number">Train</th>
<th class="number">Validation</th><th class="number">Test</th></tr></thead><tbody>
{% for name, rows in tables.items() %}<tr><td>{{ name }}</td>
{% for count in rows %}<td class="number">{{ '{:,}'.format(count) }}</td>{% endfor %}</tr>{% endfor %}
</tbody></table>
{% if sources %}<h5>Sources</h5>
<table class="figures"><thead><tr><th>Source</th><th>Recognised as</th>
{% for head in ('Rows read', 'Ties', 'Sampled out', 'Set aside', 'Repeats') %}
<th class="number">{{ head }}</th>{% endfor %}</tr></thead><tbody>
{% for name, one in sources.items() %}<tr><td>{{ name }}</td><td>{{ one.shape }}</td>
{% for key in ('raw_rows', 'undecided', 'sampled_out', 'set_aside', 'repeated') %}
<td class="number">{{ '{:,}'.format(one[key]) }}</td>{% endfor %}</tr>{% endfor %}
</tbody></table>{% endif %}
<p class="quiet">All offending rows, up to validate_data.max_reported_rows per expectation:
<a href="../offending_rows.csv">offending_rows.csv</a>;
everything observed: <a href="../findings.json">findings.json</a>.</p>
</body></html>
"""
)

TEMPLATES = {"page.j2": PAGE, "collapse.j2": COLLAPSE}
