"""What a set's questions won and lost by the graph, and the bounds of it."""

from benchmarks.first_ten import summary


def test_the_bounds_of_a_set_stand_beside_what_it_won_and_lost() -> None:
    scores = [(1.0, 0.5, 1.0), (0.25, 0.5, 1.0), (0.5, 0.5, 0.75)]
    assert summary(scores).splitlines() == [
        "won 1, lost 1; nDCG@10 without the graph 0.5000",
        "with the graph 0.5833 (+0.0833)",
        "the better of both, question by question 0.6667 (+0.1667)",
        "the first ten without it in the best order 0.9167 (+0.4167)",
    ]
