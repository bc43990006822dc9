//! The runner: executes a graph of agents, tools, checks and people under the governor. Effects happen only here.
