"""The report: one self-contained HTML page over what the stages left in reports/, models/ and data/.

inputs.py reads, svg.py draws, charts.py says what to draw, page.py puts it together, summary.py says
it in ten lines. Nothing here trains, scores or imports torch.
"""
