// Package exchange sets up connections by a plain TCP exchange that the programs
// of perftest 4.5 understand: with it, ib_write_bw and its sisters run as the
// other end, as client or as server. rdma_cm has no part in it.
//
// # The exchange
//
// One end listens, by default on port 18515; the other connects and is the client.
// Everything is swapped: the client writes a message and reads one of the same kind
// and length; the server reads first. Messages have no headers: each end knows from
// the test what comes next.
//
//	message  bytes  content
//	version     16  "6.06", padded with NUL
//	cycle        4  bytes through which small messages walk, big-endian; the larger counts
//	line         4  cache line, big-endian; the larger counts
//	MTU          2  '1' to '5' for 256 to 4096, then NUL; the smaller counts
//	address    108  a queue pair: LID, outstanding reads, QPN, PSN, R_Key, address, GID
//	                and SRQ number in hexadecimal, separated by colons, then NUL
//	report      40  what was measured, five words of 8 bytes, each swapped on its own
//	done         5  "done" and NUL, from both ends at once, read by neither
//
// Greet swaps the first four. Swap swaps addresses; after the queue pairs are
// connected the same message serves as a barrier, its content ignored. The test
// decides the order of messages: package bench/perf has the orders of perftest's
// tests.
//
// With its flags -R and -z perftest sends the same messages over a queue pair that
// rdma_cm has connected, addresses in binary and no "done": NewMessages.
//
// Source: the behaviour of perftest 4.5+0.17 (version 6.06) as Debian 12 has it,
// whose messages between two hosts are in testdata. A perftest whose version is
// below 5.70 speaks differently and is refused, as it refuses us.
//
// # Trust
//
// The exchange is in the clear and authenticates nobody: whoever can connect to the
// port learns an R_Key and may write to its memory region. Use it on networks where
// that is acceptable. Every read and write has a deadline, and a message that does
// not parse is an error that quotes what was received.
//
// A Conn is for one goroutine at a time.
package exchange
