"""What tools/bench_report.py is made of: results and their summary need Python alone, figures need matplotlib."""
