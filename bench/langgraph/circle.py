"""A cycle of two empty nodes in LangGraph: without storage, or with its SQLite checkpointer in sync mode."""

import sqlite3
import sys
import time
from typing import TypedDict

from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    count: int


def step(state: State) -> State:
    return {"count": state["count"] + 1}


def main() -> None:
    mode, steps = sys.argv[1], int(sys.argv[2])
    graph = StateGraph(State)
    graph.add_node("a", step)
    graph.add_node("b", step)
    graph.add_edge(START, "a")
    graph.add_edge("a", "b")
    graph.add_conditional_edges("b", lambda state: END if state["count"] >= steps else "a")
    config = {"recursion_limit": 10 * steps, "configurable": {"thread_id": "circle"}}
    options = {}
    if mode == "sqlite":
        from langgraph.checkpoint.sqlite import SqliteSaver

        connection = sqlite3.connect(sys.argv[3], check_same_thread=False)
        app = graph.compile(checkpointer=SqliteSaver(connection))
        options["durability"] = "sync"
    else:
        app = graph.compile()
    began = time.perf_counter_ns()
    done = app.invoke({"count": 0}, config, **options)
    took = time.perf_counter_ns() - began
    print(f"{done['count']} steps, {took // max(done['count'], 1)} ns a step")


main()
