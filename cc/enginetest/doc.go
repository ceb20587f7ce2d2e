// Package enginetest holds what the tests of all rate engines share, those of other
// modules too: the promises that package cc makes in their name (Conform), a check
// of their configurations' tags (Tags), and a single bottleneck to run them over
// (Link), or with a receiver that has a say (Incast).
// They are no model of a network: one queue, constant delays and no
// retransmission, so that a test can compute by hand what must come out.
package enginetest
