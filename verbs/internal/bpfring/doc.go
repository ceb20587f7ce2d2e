// Package bpfring reads a BPF ring buffer where it is mapped, without a system call.
package bpfring
