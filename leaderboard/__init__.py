"""Leaderboard tables: layouts, builders and renderers; published/ holds the papers' own figures."""

if __name__ != "hierbench.leaderboard":
    raise ImportError(
        "import this folder as hierbench.leaderboard; under its bare name everything would register twice"
    )
