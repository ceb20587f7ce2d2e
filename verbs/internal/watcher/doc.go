// Package watcher is what the eBPF programs that watch the packets of reliable
// connections, at the hooks of a network interface, have in common: which devices they
// can serve, telling them of connections, and reading their records. What the programs
// themselves share is bpf/kernel.h.
package watcher
