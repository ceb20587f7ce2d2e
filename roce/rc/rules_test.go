package rc_test

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// rules are the rules of IBA volume 1 chapter 9 one by one, each as a script. A
// line is an action and, after =>, all that comes of it:
//
//	post OP LENGTH [flags]      => error, if any
//	send                        => request packets: OPCODE PSN PAYLOAD [va] [A: AckReq] [S: solicited] [R: again]
//	send1                       the same, one packet only
//	recv LENGTH                 a receive is posted; they are numbered from 0
//	in OPCODE PSN [PAYLOAD] [key=value] [A] [S]  => effects, with Checked answered by ok or, after "deny", refused
//	out                         => response packets: OPCODE PSN ...
//	done SLOT VALUE             AtomicDone
//	sent N                      => the next N request packets have left
//	sentbehind N                => the one behind N others has
//	poll                        => send completions, then flushed receives
//	at TIME                     => what Expire does then
//	now TIME                    time passes without Expire
//	deadline                    => the deadline
//	state                       => the state
//	fresh                       => whether what was described last should be sent
//	inflight                    => the bytes in flight
//	counters                    => all but zeros
//
// The MTU is 256, PSNs start at 0, and everything is allowed unless cfg says
// otherwise.
var rules = []struct {
	name   string
	cfg    func(*rc.Config, *rc.SendConfig)
	script string
}{
	// The requester.
	{name: "a WRITE is cut at the MTU; its last packet asks for an ACK (9.4, 9.7.5.1)", script: `
		post WRITE 600 va=1000
		send => WRITE_FIRST 0 256 va=1000 len=600; WRITE_MIDDLE 1 256; WRITE_LAST 2 88 A
		in ACK 2 => acked 600/3
		poll => 0 success
		send`},
	{name: "a message of the MTU is one packet, one byte more two", script: `
		post SEND 256
		post SEND 257 S
		send => SEND_ONLY 0 256 A; SEND_FIRST 1 256; SEND_LAST 2 1 A S`},
	{name: "a message without bytes is one packet (9.7.4)", script: `
		post WRITE 0
		post SEND 0
		post READ 0
		send => WRITE_ONLY 0 0 va=0 len=0 A; SEND_ONLY 1 0 A; READ_REQUEST 2 0 va=0 len=0 A
		in ACK 1 => acked 0/2
		in READ_RESPONSE_ONLY 2 0 => acked 0/1
		poll => 0 success; 1 success; 2 success`},
	{name: "immediate data and a key to invalidate ride on the last packet", script: `
		post SEND_WITH_IMM 300 imm=5
		post WRITE_WITH_IMM 300 imm=6
		post SEND_WITH_INV 300 imm=7
		send => SEND_FIRST 0 256; SEND_LAST_IMM 1 44 imm=5 A; WRITE_FIRST 2 256 va=0 len=300; WRITE_LAST_IMM 3 44 imm=6 A; SEND_FIRST 4 256; SEND_LAST_INV 5 44 imm=7 A`},
	{name: "after a request whose payload can't be fetched nothing leaves: it would have a PSN behind one that never came (10.3.1)", script: `
		post WRITE 1
		post WRITE 1
		post WRITE 1
		send1 => WRITE_ONLY 0 1 va=0 len=1 A
		send1 => WRITE_ONLY 1 1 va=0 len=1 A
		failsend 1
		send
		in ACK 0 => acked 1/1
		poll => 0 success; 1 local protection error; 2 work request flushed
		state => ERR`},
	{name: "AckReq every n packets", cfg: func(_ *rc.Config, s *rc.SendConfig) { s.AckReqEvery = 2 }, script: `
		post SEND 1280
		send => SEND_FIRST 0 256; SEND_MIDDLE 1 256 A; SEND_MIDDLE 2 256; SEND_MIDDLE 3 256 A; SEND_LAST 4 256 A`},
	{name: "the PSN window; the packet that uses it up asks for an ACK (9.7.2)",
		cfg: func(_ *rc.Config, s *rc.SendConfig) { s.Window = 2 }, script: `
		post SEND 1024
		send => SEND_FIRST 0 256; SEND_MIDDLE 1 256 A
		in ACK 0 => acked 256/1
		send => SEND_MIDDLE 2 256 A
		in ACK 2 => acked 512/2
		send => SEND_LAST 3 256 A`},
	{name: "a READ uses a PSN for each response (9.7.2)", script: `
		post READ 600 va=4096
		post WRITE 1
		send => READ_REQUEST 0 0 va=4096 len=600 A; WRITE_ONLY 3 1 va=0 len=1 A
		in READ_RESPONSE_FIRST 0 256 => acked 256/1, place read 0+0 256
		in READ_RESPONSE_MIDDLE 1 256 => acked 256/1, place read 0+256 256
		in READ_RESPONSE_LAST 2 88 => acked 88/1, place read 0+512 88
		in ACK 3 => acked 1/1
		poll => 0 success; 1 success`},
	{name: "the longest READ takes half of the PSN space, and nothing goes beyond it (9.7.2)", script: `
		post READ 2147483648
		post SEND 1
		post SEND 2
		send => READ_REQUEST 0 0 va=0 len=2147483648 A
		in READ_RESPONSE_FIRST 0 256 => acked 256/1, place read 0+0 256
		send => SEND_ONLY 8388608 1 A
		in READ_RESPONSE_LAST 8388607 256 => drop out of order, rewind implied
		send => READ_REQUEST 1 0 va=256 len=2147483392 A R; SEND_ONLY 8388608 1 A R`},
	{name: "a READ waits until its responses fit into half of the PSN space", script: `
		post SEND 1
		post READ 2147483648
		send => SEND_ONLY 0 1 A
		in ACK 0 => acked 1/1
		send => READ_REQUEST 1 0 va=0 len=2147483648 A`},
	{name: "PSNs wrap around", cfg: func(_ *rc.Config, s *rc.SendConfig) { s.InitialPSN = 0xffffff }, script: `
		post SEND 600
		post READ 300
		send => SEND_FIRST 16777215 256; SEND_MIDDLE 0 256; SEND_LAST 1 88 A; READ_REQUEST 2 0 va=0 len=300 A
		in ACK 16777215 => acked 256/1
		in READ_RESPONSE_FIRST 2 256 => acked 600/3, place read 1+0 256`},
	{name: "one ACK stands for all before it (9.7.5.1.2)", script: `
		post SEND 1
		post WRITE 300
		post SEND 2
		send => SEND_ONLY 0 1 A; WRITE_FIRST 1 256 va=0 len=300; WRITE_LAST 2 44 A; SEND_ONLY 3 2 A
		in ACK 3 => acked 303/4
		poll => 0 success; 1 success; 2 success`},
	{name: "a READ response stands for all before it", script: `
		post SEND 1
		post READ 1
		send => SEND_ONLY 0 1 A; READ_REQUEST 1 0 va=0 len=1 A
		in READ_RESPONSE_ONLY 1 1 => acked 2/2, place read 1+0 1
		poll => 0 success; 1 success`},
	{name: "unsignaled requests complete in silence", script: `
		post SEND 1 unsignaled
		post SEND 2
		send => SEND_ONLY 0 1 A; SEND_ONLY 1 2 A
		in ACK 1 => acked 3/2
		poll => 1 success`},
	{name: "ghosts: before the oldest outstanding, and what was never sent (9.7.5.1)", script: `
		post SEND 300
		in ACK 0 => drop ghost
		send => SEND_FIRST 0 256; SEND_LAST 1 44 A
		in ACK 16777215 => drop ghost
		in ACK 2 => drop ghost
		in ACK 1 syn=0x45 => drop ghost
		in ACK 1 syn=0x64 => drop ghost
		in ACK 1 => acked 300/2
		in ACK 1 => drop ghost
		in READ_RESPONSE_ONLY 1 9 => drop ghost`},
	{name: "a NAK for a sequence error goes back to the missing packet (9.7.5.2)", script: `
		post SEND 1000
		send => SEND_FIRST 0 256; SEND_MIDDLE 1 256; SEND_MIDDLE 2 256; SEND_LAST 3 232 A
		in ACK 1 syn=0x60 => rewind sequence, acked 256/1
		send => SEND_MIDDLE 1 256 R; SEND_MIDDLE 2 256 R; SEND_LAST 3 232 A R
		in ACK 1 syn=0x60 => drop ghost
		in ACK 3 => acked 744/3`},
	{name: "a NAK after progress goes back again", script: `
		post SEND 600
		send => SEND_FIRST 0 256; SEND_MIDDLE 1 256; SEND_LAST 2 88 A
		in ACK 0 syn=0x60 => rewind sequence
		send => SEND_FIRST 0 256 R; SEND_MIDDLE 1 256 R; SEND_LAST 2 88 A R
		in ACK 0 => acked 256/1
		in ACK 1 syn=0x60 => rewind sequence`},
	{name: "a NAK after a timeout is news", script: `
		post SEND 300
		send => SEND_FIRST 0 256; SEND_LAST 1 44 A
		at 66us => rewind timeout
		send => SEND_FIRST 0 256 R; SEND_LAST 1 44 A R
		in ACK 0 syn=0x60 => rewind sequence`},
	{name: "an ACK for what was sent before going back counts", script: `
		post SEND 1000
		send => SEND_FIRST 0 256; SEND_MIDDLE 1 256; SEND_MIDDLE 2 256; SEND_LAST 3 232 A
		in ACK 0 syn=0x60 => rewind sequence
		in ACK 2 => acked 768/3
		send => SEND_LAST 3 232 A R`},
	{name: "sequence errors without progress use up the retries (9.9.2)",
		cfg: func(_ *rc.Config, s *rc.SendConfig) { s.RetryCount = 1 }, script: `
		post SEND 300
		post WRITE 1
		send => SEND_FIRST 0 256; SEND_LAST 1 44 A; WRITE_ONLY 2 1 va=0 len=1 A
		in ACK 0 syn=0x60 => rewind sequence
		at 10us
		send => SEND_FIRST 0 256 R; SEND_LAST 1 44 A R; WRITE_ONLY 2 1 va=0 len=1 A R
		at 100us
		poll => 0 transport retry counter exceeded; 1 work request flushed
		state => ERR`},
	{name: "a timeout goes back; progress gives the retries back", cfg: func(_ *rc.Config, s *rc.SendConfig) {
		s.RetryCount = 1
	}, script: `
		post SEND 300
		deadline => never
		send => SEND_FIRST 0 256; SEND_LAST 1 44 A
		deadline => 65.536us
		at 60us
		at 66us => rewind timeout
		deadline => never
		send => SEND_FIRST 0 256 R; SEND_LAST 1 44 A R
		deadline => 131.536us
		in ACK 0 => acked 256/1
		at 132us => rewind timeout
		send => SEND_LAST 1 44 A R
		at 200us
		poll => 0 transport retry counter exceeded`},
	{name: "the timer restarts with progress, the deadline lazily", script: `
		post SEND 300
		send => SEND_FIRST 0 256; SEND_LAST 1 44 A
		at 50us
		in ACK 0 => acked 256/1
		at 66us
		deadline => 115.536us
		at 116us => rewind timeout`},
	{name: "the timer is that of the oldest packet", script: `
		post SEND 1
		send => SEND_ONLY 0 1 A
		at 50us
		post SEND 2
		send => SEND_ONLY 1 2 A
		at 66us => rewind timeout`},
	{name: "a slow sender: while no packet under way asks for an ACK, none is late",
		cfg: func(_ *rc.Config, s *rc.SendConfig) { s.AckReqEvery = 3 }, script: `
		post SEND 1500
		send1 => SEND_FIRST 0 256
		at 60us
		send1 => SEND_MIDDLE 1 256
		at 120us
		send1 => SEND_MIDDLE 2 256 A
		at 180us
		send1 => SEND_MIDDLE 3 256
		at 186us => rewind timeout
		send1 => SEND_FIRST 0 256 R
		at 250us
		at 252us => rewind timeout`},
	{name: "every 64th packet asks for an ACK if nothing else is said", script: `
		post SEND 20000
		send => SEND_FIRST 0 256` + func() (s string) {
		for i := 1; i < 78; i++ {
			s += fmt.Sprintf("; SEND_MIDDLE %d 256", i)
			if i == 63 {
				s += " A"
			}
		}
		return s
	}() + `; SEND_LAST 78 32 A`},
	{name: "nothing under way, no timeout", script: `
		post SEND 1
		send => SEND_ONLY 0 1 A
		in ACK 0 => acked 1/1
		deadline => 65.536us
		at 66us
		deadline => never`},
	{name: "timeout 0 waits for ever", cfg: func(_ *rc.Config, s *rc.SendConfig) { s.Timeout = 0 }, script: `
		post SEND 1
		send => SEND_ONLY 0 1 A
		deadline => never
		at 1000000s`},
	{name: "a lost READ response: ask again from it on, once (9.7.5.1.2, implied NAK)", script: `
		post READ 1000 va=4096
		post SEND 1
		send => READ_REQUEST 0 0 va=4096 len=1000 A; SEND_ONLY 4 1 A
		in READ_RESPONSE_FIRST 0 256 => acked 256/1, place read 0+0 256
		in READ_RESPONSE_MIDDLE 2 256 => drop out of order, rewind implied
		in READ_RESPONSE_LAST 3 232 => drop out of order
		in ACK 4 => drop out of order
		send => READ_REQUEST 1 0 va=4352 len=744 A R; SEND_ONLY 4 1 A R
		in READ_RESPONSE_FIRST 1 256 => acked 256/1, place read 0+256 256
		in READ_RESPONSE_MIDDLE 2 256 => acked 256/1, place read 0+512 256
		in READ_RESPONSE_LAST 3 232 => acked 232/1, place read 0+768 232
		in ACK 4 => acked 1/1
		poll => 0 success; 1 success`},
	{name: "a READ response that is lost again: the answers begin anew behind it, and so does the request", script: `
		post READ 1000 va=4096
		send => READ_REQUEST 0 0 va=4096 len=1000 A
		in READ_RESPONSE_FIRST 0 256 => acked 256/1, place read 0+0 256
		in READ_RESPONSE_MIDDLE 2 256 => drop out of order, rewind implied
		send => READ_REQUEST 1 0 va=4352 len=744 A R
		in READ_RESPONSE_LAST 3 232 => drop out of order
		in READ_RESPONSE_MIDDLE 2 256 => drop out of order, rewind implied
		send => READ_REQUEST 1 0 va=4352 len=744 A R
		in READ_RESPONSE_LAST 3 232 => drop out of order
		in READ_RESPONSE_FIRST 1 256 => acked 256/1, place read 0+256 256
		in READ_RESPONSE_MIDDLE 2 256 => acked 256/1, place read 0+512 256
		in READ_RESPONSE_LAST 3 232 => acked 232/1, place read 0+768 232
		poll => 0 success`},
	{name: "an ACK beyond a READ or atomic that was not answered implies a NAK", script: `
		post SEND 1
		post FETCH_ADD 8
		post SEND 2
		send => SEND_ONLY 0 1 A; FETCH_ADD 1 0 va=0 A; SEND_ONLY 2 2 A
		in ACK 2 => drop out of order, rewind implied, acked 1/1
		send => FETCH_ADD 1 0 va=0 A R; SEND_ONLY 2 2 A R
		in ATOMIC_ACKNOWLEDGE 1 => acked 0/1, place atomic 1
		in ACK 2 => acked 2/1
		poll => 0 success; 1 success; 2 success`},
	{name: "READs and atomics outstanding are limited (9.7.7)",
		cfg: func(_ *rc.Config, s *rc.SendConfig) { s.MaxRdAtomic = 2 }, script: `
		post READ 1
		post CMP_SWAP 8
		post SEND 1
		post READ 2
		post SEND 2
		send => READ_REQUEST 0 0 va=0 len=1 A; COMPARE_SWAP 1 0 va=0 A; SEND_ONLY 2 1 A
		in READ_RESPONSE_ONLY 0 1 => acked 1/1, place read 0+0 1
		send => READ_REQUEST 3 0 va=0 len=2 A; SEND_ONLY 4 2 A`},
	{name: "a queue pair without READ resources refuses to post one",
		cfg: func(_ *rc.Config, s *rc.SendConfig) { s.MaxRdAtomic = 0 }, script: `
		post READ 1 => rc: RDMA_READ on a queue pair with MaxRdAtomic 0`},
	{name: "a fence waits for READs and atomics, not for others (10.8)", script: `
		post READ 300
		post SEND 1
		post WRITE 1 fence
		send => READ_REQUEST 0 0 va=0 len=300 A; SEND_ONLY 2 1 A
		in READ_RESPONSE_FIRST 0 256 => acked 256/1, place read 0+0 256
		send
		in READ_RESPONSE_LAST 1 44 => acked 44/1, place read 0+256 44
		send => WRITE_ONLY 3 1 va=0 len=1 A`},
	{name: "a local invalidate is handed out in order and takes no PSN", script: `
		post SEND 1
		post LOCAL_INV 0 imm=9
		post SEND 2
		send => SEND_ONLY 0 1 A; LOCAL_INV 9; SEND_ONLY 1 2 A
		in ACK 0 syn=0x60 => rewind sequence
		send => SEND_ONLY 0 1 A R; SEND_ONLY 1 2 A R
		in ACK 0 => acked 1/1
		poll => 0 success; 1 success`},
	{name: "a local invalidate does not complete before it was handed out", script: `
		post SEND 1
		send => SEND_ONLY 0 1 A
		post LOCAL_INV 0 imm=9
		in ACK 0 => acked 1/1
		poll => 0 success
		send => LOCAL_INV 9
		poll => 1 success`},
	{name: "only what consumes a receive is solicited", script: `
		post WRITE 1 S
		post WRITE_WITH_IMM 1 imm=3 S
		send => WRITE_ONLY 0 1 va=0 len=1 A; WRITE_ONLY_IMM 1 1 va=0 len=1 imm=3 A S`},
	{name: "RNR NAK: wait, then again (9.7.5.2.8)", script: `
		post SEND 1
		post WRITE 2
		send => SEND_ONLY 0 1 A; WRITE_ONLY 1 2 va=0 len=2 A
		in ACK 0 syn=0x23 => rewind not ready
		in ACK 0 syn=0x23 => drop ghost
		in ACK 0 syn=0x60 => drop ghost
		deadline => 30us
		send
		at 29us
		send
		at 30us
		send => SEND_ONLY 0 1 A R; WRITE_ONLY 1 2 va=0 len=2 A R`},
	{name: "an RNR NAK ends what a sequence error began: the next one is news", script: `
		post SEND 1
		post SEND 2
		send => SEND_ONLY 0 1 A; SEND_ONLY 1 2 A
		in ACK 0 syn=0x60 => rewind sequence
		send => SEND_ONLY 0 1 A R; SEND_ONLY 1 2 A R
		in ACK 0 syn=0x60 => drop ghost
		in ACK 0 syn=0x23 => rewind not ready
		now 30us
		send => SEND_ONLY 0 1 A R; SEND_ONLY 1 2 A R
		in ACK 0 syn=0x60 => rewind sequence`},
	{name: "the wait is over at its time, also before Expire says so; progress gives the RNR retries back",
		cfg: func(_ *rc.Config, s *rc.SendConfig) { s.RNRRetry = 1 }, script: `
		post SEND 1
		post SEND 2
		send => SEND_ONLY 0 1 A; SEND_ONLY 1 2 A
		in ACK 0 syn=0x23 => rewind not ready
		now 30us
		send => SEND_ONLY 0 1 A R; SEND_ONLY 1 2 A R
		in ACK 0 => acked 1/1
		in ACK 1 syn=0x23 => rewind not ready`},
	{name: "RNR retries run out", cfg: func(_ *rc.Config, s *rc.SendConfig) { s.RNRRetry = 1 }, script: `
		post SEND 1
		send => SEND_ONLY 0 1 A
		in ACK 0 syn=0x21 => rewind not ready
		at 10us
		send => SEND_ONLY 0 1 A R
		in ACK 0 syn=0x21
		poll => 0 RNR retry counter exceeded
		state => ERR`},
	{name: "RNR retry 7 is without end", cfg: func(_ *rc.Config, s *rc.SendConfig) { s.RNRRetry, s.Timeout = 7, 0 }, script: `
		post SEND 1
		send => SEND_ONLY 0 1 A
		` + strings.Repeat(`in ACK 0 syn=0x21 => rewind not ready
		at +10us
		send => SEND_ONLY 0 1 A R
		`, 20)},
	{name: "NAK invalid request", script: `
		post SEND 1
		post WRITE 2
		post SEND 3
		send => SEND_ONLY 0 1 A; WRITE_ONLY 1 2 va=0 len=2 A; SEND_ONLY 2 3 A
		in ACK 1 syn=0x61 => acked 1/1
		poll => 0 success; 1 remote invalid request error; 2 work request flushed
		state => ERR`},
	{name: "NAK remote access error", script: `
		post WRITE 2
		send => WRITE_ONLY 0 2 va=0 len=2 A
		in ACK 0 syn=0x62
		poll => 0 remote access error`},
	{name: "NAK remote operational error, in place of a READ response", script: `
		post READ 600
		send => READ_REQUEST 0 0 va=0 len=600 A
		in READ_RESPONSE_FIRST 0 256 => acked 256/1, place read 0+0 256
		in ACK 1 syn=0x63
		poll => 0 remote operation error`},
	{name: "a response that its request can't have (9.9.2)", script: `
		post SEND 1
		send => SEND_ONLY 0 1 A
		in READ_RESPONSE_ONLY 0 1 => drop bad response
		poll => 0 bad response error
		state => ERR`},
	{name: "a READ response that ends too early", script: `
		post READ 600
		send => READ_REQUEST 0 0 va=0 len=600 A
		in READ_RESPONSE_ONLY 0 256 => drop bad response
		poll => 0 bad response error`},
	{name: "a READ response that does not end", script: `
		post READ 100
		send => READ_REQUEST 0 0 va=0 len=100 A
		in READ_RESPONSE_FIRST 0 256 => drop bad response
		poll => 0 bad response error`},
	{name: "a READ response with too many bytes", script: `
		post READ 100
		send => READ_REQUEST 0 0 va=0 len=100 A
		in READ_RESPONSE_ONLY 0 101 => drop bad response
		poll => 0 local length error`},
	{name: "a READ response with too few bytes", script: `
		post READ 100
		send => READ_REQUEST 0 0 va=0 len=100 A
		in READ_RESPONSE_ONLY 0 99 => drop bad response
		poll => 0 local length error`},
	{name: "an atomic's answer for something else", script: `
		post READ 8
		send => READ_REQUEST 0 0 va=0 len=8 A
		in ATOMIC_ACKNOWLEDGE 0 => drop bad response
		poll => 0 bad response error`},
	{name: "after an error requests are taken and flushed", script: `
		post SEND 1
		send => SEND_ONLY 0 1 A
		in ACK 0 syn=0x62
		poll => 0 remote access error
		post SEND 2
		send
		poll => 1 work request flushed
		in ACK 0 => drop state`},
	{name: "the ring is full", script: `
		post SEND 1
		post SEND 1
		post SEND 1
		post SEND 1
		post SEND 1
		post SEND 1
		post SEND 1
		post SEND 1
		post SEND 1 => rc: the work queue is full`},
	{name: "draining: what has begun is finished, nothing else started (10.3.1)",
		cfg: func(_ *rc.Config, s *rc.SendConfig) { s.Window = 1 }, script: `
		post SEND 300
		post SEND 1
		send => SEND_FIRST 0 256 A
		drain
		in ACK 0 => acked 256/1
		send => SEND_LAST 1 44 A
		in ACK 1 => acked 44/1, event send queue drained
		send
		state => SQD
		resume
		send => SEND_ONLY 2 1 A`},
	{name: "draining with nothing under way", script: `
		post SEND 300
		drain => event send queue drained
		send`},
	{name: "a request that failed locally waits for those before it", script: `
		post SEND 1
		post WRITE 300
		post SEND 2
		send => SEND_ONLY 0 1 A; WRITE_FIRST 1 256 va=0 len=300; WRITE_LAST 2 44 A; SEND_ONLY 3 2 A
		failsend 1
		poll
		in ACK 1 syn=0x60 => acked 1/1
		poll => 0 success; 1 local protection error; 2 work request flushed
		state => ERR`},
	{name: "a request that failed locally with none before it", script: `
		post SEND 1
		send => SEND_ONLY 0 1 A
		failsend 0
		poll => 0 local protection error
		state => ERR`},
	{name: "a READ whose data can't be placed fails before it is polled", script: `
		post READ 8
		send => READ_REQUEST 0 0 va=0 len=8 A
		in READ_RESPONSE_ONLY 0 8 => acked 8/1, place read 0+0 8
		failsend 0
		poll => 0 local protection error
		state => ERR`},
	{name: "a READ whose data can't be placed fails, though its response ends a later request", script: `
		post READ 8
		post WRITE 300
		post WRITE 1
		send => READ_REQUEST 0 0 va=0 len=8 A; WRITE_FIRST 1 256 va=0 len=300; WRITE_LAST 2 44 A; WRITE_ONLY 3 1 va=0 len=1 A
		failsend 1
		in READ_RESPONSE_ONLY 0 8 => acked 8/1, place read 0+0 8
		failsend 0
		state => ERR
		poll => 0 local protection error; 1 work request flushed; 2 work request flushed`},
	{name: "after one request has failed, the others are flushed", script: `
		post READ 8
		post READ 8
		send => READ_REQUEST 0 0 va=0 len=8 A; READ_REQUEST 1 0 va=0 len=8 A
		failsend 1
		in READ_RESPONSE_ONLY 0 8 => acked 8/1, place read 0+0 8
		failsend 0
		poll => 0 local protection error; 1 work request flushed
		state => ERR`},
	{name: "credits beyond what was posted are not believed", cfg: func(c *rc.Config, s *rc.SendConfig) { c.Credits = true }, script: `
		post SEND 1
		post SEND 2
		post SEND 3
		send => SEND_ONLY 0 1 A
		in ACK 0 syn=1 msn=100 => acked 1/1
		send
		in ACK 0 syn=1 msn=1 => drop ghost
		send => SEND_ONLY 1 2 A; SEND_ONLY 2 3 A`},
	{name: "credits: one packet beyond the limit (9.7.7.2)", cfg: func(c *rc.Config, s *rc.SendConfig) { c.Credits = true }, script: `
		post SEND 300
		post SEND 1
		post SEND 2
		post SEND 3
		send => SEND_FIRST 0 256 A
		in ACK 0 syn=2 msn=0 => acked 256/1
		send => SEND_LAST 1 44 A; SEND_ONLY 2 1 A; SEND_ONLY 3 2 A
		in ACK 2 syn=0 msn=2 => acked 45/2
		send
		in ACK 2 syn=1 msn=2 => drop ghost
		send => SEND_ONLY 4 3 A`},
	{name: "credits hold back only what consumes a receive", cfg: func(c *rc.Config, s *rc.SendConfig) { c.Credits = true }, script: `
		post SEND 1
		post WRITE 1
		post WRITE 2
		post SEND 2
		send => SEND_ONLY 0 1 A; WRITE_ONLY 1 1 va=0 len=1 A; WRITE_ONLY 2 2 va=0 len=2 A
		in ACK 0 syn=0x1f msn=1 => acked 1/1
		send => SEND_ONLY 3 2 A`},

	// The responder.
	{name: "a WRITE is checked whole, placed packet by packet, acknowledged when asked", script: `
		in WRITE_FIRST 0 256 va=1000 len=600 => check write 1000+600 ok, place memory 1000 256
		in WRITE_MIDDLE 1 256 => place memory 1256 256
		out
		in WRITE_LAST 2 88 A => place memory 1512 88
		out => ACK 2 syn=0x1f msn=1`},
	{name: "ACKs coalesce until they are taken", script: `
		in WRITE_ONLY 0 1 va=1 len=1 A => check write 1+1 ok, place memory 1 1
		in WRITE_ONLY 1 1 va=1 len=1 A => check write 1+1 ok, place memory 1 1
		out => ACK 1 syn=0x1f msn=2`},
	{name: "the R_Key of a message without bytes is not looked at (9.7.4)", script: `
		deny
		in WRITE_ONLY 0 0 va=1 len=0 A
		in READ_REQUEST 1 va=1 len=0
		out => ACK 0 syn=0x1f msn=1; READ_RESPONSE_ONLY 1 0 msn=2`},
	{name: "a SEND fills a receive", script: `
		recv 600
		recv 600
		in SEND_FIRST 0 256 => place recv 0+0 256
		in SEND_MIDDLE 1 256 => place recv 0+256 256
		in SEND_LAST_IMM 2 88 imm=7 A S => place recv 0+512 88, recv 0 RECV 600 imm=7 S
		in SEND_ONLY_INV 3 1 imm=8 A => check invalidate 8 ok, place recv 1+0 1, recv 1 RECV 1 inv=8
		out => ACK 3 syn=0x1f msn=2`},
	{name: "a WRITE with immediate takes a receive with its last packet", script: `
		in WRITE_FIRST 0 256 va=1000 len=300 => check write 1000+300 ok, place memory 1000 256
		in WRITE_LAST_IMM 1 44 imm=7 A => drop not ready
		out => RNR 1 syn=0x21 msn=0
		recv 0
		in WRITE_LAST_IMM 1 44 imm=7 A => place memory 1256 44, recv 0 RECV_RDMA_WITH_IMM 300 imm=7
		out => ACK 1 syn=0x1f msn=1`},
	{name: "no receive: RNR NAK; what follows is dropped in silence (9.7.5.2.8)", script: `
		in SEND_ONLY 0 1 A => drop not ready
		out => RNR 0 syn=0x21 msn=0
		in SEND_ONLY 1 1 A => drop sequence
		out
		recv 10
		in SEND_ONLY 0 1 A => place recv 0+0 1, recv 0 RECV 1
		out => ACK 0 syn=0x1f msn=1`},
	{name: "a WRITE with immediate without a receive is not checked", script: `
		in WRITE_ONLY_IMM 0 1 va=5 len=1 => drop not ready
		in WRITE_ONLY 1 1 va=5 len=1 => drop sequence
		out => RNR 0 syn=0x21 msn=0`},
	{name: "an RNR NAK that was not sent yet is overtaken by the receive", script: `
		in SEND_ONLY 0 1 A => drop not ready
		recv 10
		in SEND_ONLY 0 1 A => place recv 0+0 1, recv 0 RECV 1
		out => ACK 0 syn=0x1f msn=1`},
	{name: "one NAK for a gap (9.7.5.1)", script: `
		recv 10
		in SEND_ONLY 1 1 A => drop sequence
		out => NAK 0 syn=0x60 msn=0
		in SEND_ONLY 2 1 A => drop sequence
		in SEND_ONLY 8388607 1 A => drop sequence
		out
		in SEND_ONLY 0 1 A => place recv 0+0 1, recv 0 RECV 1
		out => ACK 0 syn=0x1f msn=1
		in SEND_ONLY 2 1 A => drop sequence
		out => NAK 1 syn=0x60 msn=1`},
	{name: "a duplicate is acknowledged and not executed (9.7.5.1)", script: `
		recv 10
		recv 10
		in SEND_ONLY 0 1 A => place recv 0+0 1, recv 0 RECV 1
		in WRITE_ONLY 1 1 va=5 len=1 A => check write 5+1 ok, place memory 5 1
		out => ACK 1 syn=0x1f msn=2
		in SEND_ONLY 0 1 => drop duplicate
		out => ACK 1 syn=0x1f msn=2
		in WRITE_ONLY 8388610 1 va=5 len=1 => drop duplicate
		out => ACK 1 syn=0x1f msn=2`},
	{name: "a duplicate is answered also while a gap is open", script: `
		in WRITE_ONLY 0 1 va=5 len=1 A => check write 5+1 ok, place memory 5 1
		in WRITE_ONLY 2 1 va=5 len=1 A => drop sequence
		out => NAK 1 syn=0x60 msn=1
		in WRITE_ONLY 0 1 va=5 len=1 => drop duplicate
		out => ACK 0 syn=0x1f msn=1`},
	{name: "a READ; its responses come before the ACK of what follows it", script: `
		in READ_REQUEST 0 va=100 len=600 => check read 100+600 ok
		in WRITE_ONLY 3 1 va=5 len=1 A => check write 5+1 ok, place memory 5 1
		out => READ_RESPONSE_FIRST 0 256 va=100 msn=1; READ_RESPONSE_MIDDLE 1 256 va=356; READ_RESPONSE_LAST 2 88 va=612 msn=1; ACK 3 syn=0x1f msn=2`},
	{name: "an ACK that was owed comes before the READ's responses", script: `
		in WRITE_ONLY 0 1 va=5 len=1 A => check write 5+1 ok, place memory 5 1
		in READ_REQUEST 1 va=100 len=1 => check read 100+1 ok
		out => ACK 0 syn=0x1f msn=1; READ_RESPONSE_ONLY 1 1 va=100 msn=2`},
	{name: "a duplicate READ is executed again, from any response on", script: `
		in READ_REQUEST 0 va=100 len=600 => check read 100+600 ok
		out => READ_RESPONSE_FIRST 0 256 va=100 msn=1; READ_RESPONSE_MIDDLE 1 256 va=356; READ_RESPONSE_LAST 2 88 va=612 msn=1
		in READ_REQUEST 1 va=356 len=344 => drop duplicate, check read 356+344 ok, drop duplicate
		out => READ_RESPONSE_FIRST 1 256 va=356 msn=1; READ_RESPONSE_LAST 2 88 va=612 msn=1
		in READ_REQUEST 2 va=612 len=88 => drop duplicate, check read 612+88 ok, drop duplicate
		out => READ_RESPONSE_ONLY 2 88 va=612 msn=1
		in READ_REQUEST 0 va=100 len=200 => drop duplicate, check read 100+200 ok, drop duplicate
		out => READ_RESPONSE_ONLY 0 200 va=100 msn=1
		in READ_REQUEST 0 va=100 len=600 => drop duplicate, check read 100+600 ok, drop duplicate
		out => READ_RESPONSE_FIRST 0 256 va=100 msn=1; READ_RESPONSE_MIDDLE 1 256 va=356; READ_RESPONSE_LAST 2 88 va=612 msn=1`},
	{name: "a duplicate READ that is not the turn of waits for those before it", script: `
		in READ_REQUEST 0 va=100 len=600 => check read 100+600 ok
		in READ_REQUEST 3 va=0 len=1 => check read 0+1 ok
		out1 => READ_RESPONSE_FIRST 0 256 va=100 msn=1
		in READ_REQUEST 3 va=0 len=1 => drop duplicate, check read 0+1 ok, drop duplicate
		out => READ_RESPONSE_MIDDLE 1 256 va=356; READ_RESPONSE_LAST 2 88 va=612 msn=1; READ_RESPONSE_ONLY 3 1 va=0 msn=2`},
	{name: "a stale duplicate READ does not use up the resources", cfg: func(c *rc.Config, _ *rc.SendConfig) {
		c.MaxDestRdAtomic = 2
	}, script: `
		in READ_REQUEST 0 va=100 len=1 => check read 100+1 ok
		in READ_REQUEST 1 va=101 len=1 => check read 101+1 ok
		out => READ_RESPONSE_ONLY 0 1 va=100 msn=1; READ_RESPONSE_ONLY 1 1 va=101 msn=2
		in READ_REQUEST 0 va=100 len=1 => drop duplicate, check read 100+1 ok, drop duplicate
		in READ_REQUEST 2 va=102 len=1 => check read 102+1 ok
		out => READ_RESPONSE_ONLY 2 1 va=102 msn=3`},
	{name: "a duplicate READ of anything else is dropped", script: `
		in READ_REQUEST 0 va=100 len=600 => check read 100+600 ok
		out => READ_RESPONSE_FIRST 0 256 va=100 msn=1; READ_RESPONSE_MIDDLE 1 256 va=356; READ_RESPONSE_LAST 2 88 va=612 msn=1
		in READ_REQUEST 0 va=99 len=600 => drop duplicate
		in READ_REQUEST 0 va=100 len=601 => drop duplicate
		in READ_REQUEST 1 va=100 len=344 => drop duplicate
		in READ_REQUEST 0 va=100 len=600 key=8 => drop duplicate
		in FETCH_ADD 0 va=104 => drop duplicate
		out`},
	{name: "the longest READ at the responder", script: `
		in READ_REQUEST 0 va=0 len=2147483648 => check read 0+2147483648 ok
		out1 => READ_RESPONSE_FIRST 0 256 va=0 msn=1
		in READ_REQUEST 0 va=0 len=2147483648 => drop duplicate, check read 0+2147483648 ok, drop duplicate
		out1 => READ_RESPONSE_FIRST 0 256 va=0 msn=1
		in READ_REQUEST 8388607 va=2147483392 len=256 => drop duplicate, check read 2147483392+256 ok, drop duplicate
		out => READ_RESPONSE_ONLY 8388607 256 va=2147483392 msn=1
		in WRITE_ONLY 8388608 0 va=0 len=0 A
		out => ACK 8388608 syn=0x1f msn=2`},
	{name: "a READ begun again makes a later one that is half answered start over", script: `
		in READ_REQUEST 0 va=0 len=256 => check read 0+256 ok
		in READ_REQUEST 1 va=1000 len=600 => check read 1000+600 ok
		out1 => READ_RESPONSE_ONLY 0 256 va=0 msn=1
		out1 => READ_RESPONSE_FIRST 1 256 va=1000 msn=2
		in READ_REQUEST 0 va=0 len=256 => drop duplicate, check read 0+256 ok, drop duplicate
		out => READ_RESPONSE_ONLY 0 256 va=0 msn=1; READ_RESPONSE_FIRST 1 256 va=1000 msn=2; READ_RESPONSE_MIDDLE 2 256 va=1256; READ_RESPONSE_LAST 3 88 va=1512 msn=2`},
	{name: "a duplicate READ whose key has gone: NAK remote access error", script: `
		in READ_REQUEST 0 va=100 len=256 => check read 100+256 ok
		in WRITE_ONLY 1 0 va=0 len=0
		out => READ_RESPONSE_ONLY 0 256 va=100 msn=1
		deny
		in READ_REQUEST 0 va=100 len=256 => drop duplicate, check read 100+256 denied, drop access, event local access violation work queue error
		out => NAK 0 syn=0x62 msn=0`},
	{name: "a duplicate atomic gets the saved result and is not executed (9.7.5.1)", script: `
		in FETCH_ADD 0 va=104 => check atomic 104+8 ok, atomic FETCH_ADD 0 104
		out
		in FETCH_ADD 0 va=104 => drop duplicate
		out
		done 0 77
		out => ATOMIC_ACKNOWLEDGE 0 77 msn=1
		in FETCH_ADD 0 va=104 => drop duplicate
		out => ATOMIC_ACKNOWLEDGE 0 77 msn=1`},
	{name: "an atomic holds up what comes after it, not what came before", script: `
		in WRITE_ONLY 0 1 va=5 len=1 A => check write 5+1 ok, place memory 5 1
		in COMPARE_SWAP 1 va=104 => check atomic 104+8 ok, atomic COMPARE_SWAP 0 104
		in READ_REQUEST 2 va=100 len=1 => check read 100+1 ok
		out => ACK 0 syn=0x1f msn=1
		done 0 77
		out => ATOMIC_ACKNOWLEDGE 1 77 msn=2; READ_RESPONSE_ONLY 2 1 va=100 msn=3`},
	{name: "duplicates beyond the resources are dropped", cfg: func(c *rc.Config, _ *rc.SendConfig) { c.MaxDestRdAtomic = 2 }, script: `
		in READ_REQUEST 0 va=100 len=1 => check read 100+1 ok
		in READ_REQUEST 1 va=101 len=1 => check read 101+1 ok
		out => READ_RESPONSE_ONLY 0 1 va=100 msn=1; READ_RESPONSE_ONLY 1 1 va=101 msn=2
		in READ_REQUEST 2 va=102 len=1 => check read 102+1 ok
		in READ_REQUEST 0 va=100 len=1 => drop duplicate
		out => READ_RESPONSE_ONLY 2 1 va=102 msn=3`},
	{name: "a duplicate SEND or WRITE is not acknowledged beyond the next READ", script: `
		in WRITE_ONLY 0 1 va=5 len=1 A => check write 5+1 ok, place memory 5 1
		in READ_REQUEST 1 va=100 len=1 => check read 100+1 ok
		in WRITE_ONLY 2 1 va=5 len=1 A => check write 5+1 ok, place memory 5 1
		out => READ_RESPONSE_ONLY 1 1 va=100 msn=2; ACK 2 syn=0x1f msn=3
		in WRITE_ONLY 0 1 va=5 len=1 A => drop duplicate
		out => ACK 0 syn=0x1f msn=1`},
	{name: "more READs than resources: NAK invalid request (9.7.7)",
		cfg: func(c *rc.Config, _ *rc.SendConfig) { c.MaxDestRdAtomic = 2 }, script: `
		in READ_REQUEST 0 va=100 len=1 => check read 100+1 ok
		in READ_REQUEST 1 va=101 len=1 => check read 101+1 ok
		in READ_REQUEST 2 va=102 len=1 => drop invalid, event invalid request local work queue error
		out => READ_RESPONSE_ONLY 0 1 va=100 msn=1; READ_RESPONSE_ONLY 1 1 va=101 msn=2; NAK 2 syn=0x61 msn=2
		state => ERR`},
	{name: "an R_Key violation: NAK remote access error, behind what is owed (9.7.4)", script: `
		in WRITE_ONLY 0 1 va=5 len=1 A => check write 5+1 ok, place memory 5 1
		in READ_REQUEST 1 va=5 len=1 => check read 5+1 ok
		deny
		in WRITE_ONLY 2 1 va=5 len=1 A => check write 5+1 denied, drop access, event local access violation work queue error
		out => ACK 0 syn=0x1f msn=1; READ_RESPONSE_ONLY 1 1 va=5 msn=2; NAK 2 syn=0x62 msn=2
		in WRITE_ONLY 2 1 va=5 len=1 A => drop state
		out
		state => ERR`},
	{name: "an R_Key to invalidate that the peer may not", script: `
		recv 10
		deny
		in SEND_ONLY_INV 0 1 imm=8 => check invalidate 8 denied, drop access, event local access violation work queue error
		out => NAK 0 syn=0x62 msn=0
		poll => recv 0 work request flushed`},
	{name: "a range that goes past the end of the address space", script: `
		in WRITE_ONLY 0 2 va=0xffffffffffffffff len=2 A => drop access, event local access violation work queue error
		out => NAK 0 syn=0x62 msn=0`},
	{name: "a range that ends with the address space", script: `
		in READ_REQUEST 0 va=0xfffffffffffffffe len=2 => check read 18446744073709551614+2 ok`},
	{name: "operations that the queue pair does not admit", cfg: func(c *rc.Config, _ *rc.SendConfig) {
		c.Access = ib.AccessRemoteRead
	}, script: `
		in WRITE_ONLY 0 1 va=5 len=1 => drop invalid, event invalid request local work queue error
		out => NAK 0 syn=0x61 msn=0`},
	{name: "a SEND longer than its receive (9.7.4)", script: `
		recv 300
		recv 300
		in SEND_FIRST 0 256 => place recv 0+0 256
		in SEND_LAST 1 45 A => drop invalid
		out => NAK 1 syn=0x61 msn=0
		poll => recv 0 local length error; recv 1 work request flushed`},
	{name: "a message that breaks off flushes its receive with the error", script: `
		recv 1000
		in SEND_FIRST 0 256 => place recv 0+0 256
		in SEND_ONLY 1 1 => drop invalid
		out => NAK 1 syn=0x61 msn=0
		poll => recv 0 remote invalid request error`},
	{name: "a WRITE of the whole 2^31 and one byte more", script: `
		in WRITE_FIRST 0 256 va=0 len=2147483648 => check write 0+2147483648 ok, place memory 0 256
		in WRITE_MIDDLE 1 256 => place memory 256 256`},
	{name: "2^31+1 bytes", script: `
		in WRITE_FIRST 0 256 va=0 len=2147483649 => drop invalid, event invalid request local work queue error`},
	{name: "a misaligned atomic (9.4)", script: `
		in FETCH_ADD 0 va=100 => drop invalid, event invalid request local work queue error
		out => NAK 0 syn=0x61 msn=0`},
	{name: "a packet the driver is still asked about blocks the next", script: `
		wait
		in WRITE_ONLY 0 1 va=5 len=1 A => check write 5+1
		in WRITE_ONLY 1 1 va=5 len=1 A => drop busy
		checked => place memory 5 1
		out => ACK 0 syn=0x1f msn=1`},
	{name: "an answer to a check that came too late", script: `
		wait
		in WRITE_ONLY 0 1 va=5 len=1 A => check write 5+1
		error
		checked
		out`},
	{name: "real credits in the AETH, with the receive that is in use (9.7.7.2)",
		cfg: func(c *rc.Config, _ *rc.SendConfig) { c.Credits = true }, script: `
		recv 300
		recv 300
		recv 300
		in SEND_FIRST 0 256 A => place recv 0+0 256
		out => ACK 0 syn=0x3 msn=0
		in SEND_LAST 1 1 A => place recv 0+256 1, recv 0 RECV 257
		out => ACK 1 syn=0x2 msn=1
		recv 300
		recv 300
		recv 300
		in WRITE_ONLY 2 0 va=0 len=0 A
		out => ACK 2 syn=0x4 msn=2`},
	{name: "the driver can't place: NAK remote operational error", script: `
		recv 300
		in SEND_FIRST 0 256 A => place recv 0+0 256
		failrecv local protection error
		out => NAK 0 syn=0x63 msn=0
		poll => recv 0 local protection error
		state => ERR`},
	{name: "the driver can't place a whole message: the NAK is for it, and counts what came before", script: `
		in WRITE_ONLY 0 1 va=5 len=1 A => check write 5+1 ok, place memory 5 1
		in WRITE_ONLY 1 1 va=5 len=1 A => check write 5+1 ok, place memory 5 1
		failrecv local protection error => event local work queue catastrophic error
		out => NAK 1 syn=0x63 msn=1`},
	{name: "the driver can't perform an atomic", script: `
		in READ_REQUEST 0 va=100 len=1 => check read 100+1 ok
		in FETCH_ADD 1 va=104 => check atomic 104+8 ok, atomic FETCH_ADD 1 104
		failrecv local protection error => event local work queue catastrophic error
		out => READ_RESPONSE_ONLY 0 1 va=100 msn=1; NAK 1 syn=0x63 msn=1`},
	{name: "the driver can't fetch a READ response: the NAK takes its place", script: `
		in READ_REQUEST 0 va=100 len=600 => check read 100+600 ok
		in WRITE_ONLY 3 1 va=5 len=1 A => check write 5+1 ok, place memory 5 1
		out1 => READ_RESPONSE_FIRST 0 256 va=100 msn=1
		out1 => READ_RESPONSE_MIDDLE 1 256 va=356
		failresponse => event local work queue catastrophic error
		out => NAK 1 syn=0x63 msn=0
		state => ERR`},
	{name: "an opcode of another service or none", script: `
		in 0x24 0 1 => drop opcode
		in 0x81 0 16 => drop opcode
		state => RTS`},
	{name: "the first packet in RTR raises an event", cfg: func(c *rc.Config, s *rc.SendConfig) { s.Timeout = 99 }, script: `
		in WRITE_ONLY 0 0 va=0 len=0 => event communication established
		in WRITE_ONLY 1 0 va=0 len=0
		post SEND 1 => rc: PostSend in state RTR: call ReadyToSend first
		in ACK 0 => drop state
		state => RTR`},
	{name: "the SRQ limit", script: `
		limit 2
		recv 10
		recv 10
		recv 10
		in SEND_ONLY 0 1 => place recv 0+0 1, recv 0 RECV 1
		in SEND_ONLY 1 1 => place recv 1+0 1, recv 1 RECV 1, event SRQ limit reached
		in SEND_ONLY 2 1 => place recv 2+0 1, recv 2 RECV 1`},
	{name: "a failed queue pair leaves a shared receive queue alone",
		cfg: func(c *rc.Config, _ *rc.SendConfig) { c.SharedRecv = true }, script: `
		recv 1000
		recv 1000
		in SEND_FIRST 0 256 => place recv 0+0 256
		error => event last WQE reached
		poll => recv 0 work request flushed
		out
		state => ERR`},
}

// Every opcode in every place that it must not have: NAK invalid request (IBA
// 9.7.4).
func TestInvalidRequests(t *testing.T) {
	begin := map[string]string{
		"nothing": "", "a SEND": "in SEND_FIRST 0 256 => place recv 0+0 256",
		"a WRITE":                "in WRITE_FIRST 0 256 va=0 len=600 => check write 0+600 ok, place memory 0 256",
		"a WRITE of two packets": "in WRITE_FIRST 0 256 va=0 len=512 => check write 0+512 ok, place memory 0 256",
		"a WRITE with 44 left":   "in WRITE_FIRST 0 256 va=0 len=300 => check write 0+300 ok, place memory 0 256",
	}
	for after, lines := range map[string][]string{
		"nothing": {
			"SEND_MIDDLE 256", "SEND_LAST 1", "SEND_LAST_IMM 1", "SEND_LAST_INV 1",
			"WRITE_MIDDLE 256", "WRITE_LAST 1", "WRITE_LAST_IMM 1",
			"SEND_FIRST 255", "SEND_FIRST 0", "SEND_FIRST 257", "SEND_ONLY 257",
			"WRITE_FIRST 256 len=256", "WRITE_FIRST 255 len=600", "WRITE_ONLY 10 len=11", "WRITE_ONLY 10 len=9",
			"WRITE_ONLY_IMM 256 len=257", "READ_REQUEST 1 len=1", "READ_REQUEST 0 len=2147483649",
			"FETCH_ADD 8 va=8", "COMPARE_SWAP 0 va=4", "0x15 0", "0x18 0", "0x1f 0",
		},
		"a SEND": {
			"SEND_FIRST 256", "SEND_ONLY 1", "SEND_ONLY_IMM 1", "SEND_ONLY_INV 1", "WRITE_FIRST 256 len=600", "WRITE_MIDDLE 256",
			"WRITE_LAST 1", "WRITE_LAST_IMM 1", "WRITE_ONLY 1 len=1", "WRITE_ONLY_IMM 1 len=1", "READ_REQUEST 0 len=1",
			"FETCH_ADD 0 va=8", "SEND_MIDDLE 255", "SEND_LAST 0", "SEND_LAST_IMM 0", "SEND_LAST 257",
		},
		"a WRITE": {
			"WRITE_FIRST 256 len=600", "WRITE_ONLY 1 len=1", "SEND_FIRST 256", "SEND_MIDDLE 256", "SEND_LAST 1", "SEND_ONLY 1",
			"READ_REQUEST 0 len=1", "COMPARE_SWAP 0 va=8", "WRITE_MIDDLE 255", "WRITE_LAST 88", "WRITE_LAST 0",
		},
		"a WRITE of two packets": {"WRITE_MIDDLE 256", "WRITE_LAST 255", "WRITE_LAST 257"},
		"a WRITE with 44 left":   {"WRITE_LAST 43", "WRITE_LAST 45", "WRITE_LAST_IMM 45", "WRITE_LAST 256"},
	} {
		for _, l := range lines {
			t.Run(l+" after "+after, func(t *testing.T) {
				op, rest, _ := strings.Cut(l, " ")
				psn := 0
				if begin[after] != "" {
					psn = 1
				}
				s := newScript(t, nil)
				s.run("recv 1000")
				s.run(begin[after])
				got := s.do(fmt.Sprintf("in %s %d %s A", op, psn, rest))
				if !strings.HasPrefix(got, "drop invalid") {
					t.Errorf("got %q, want drop invalid", got)
				}
				s.run(fmt.Sprintf("out => NAK %d syn=0x61 msn=0", psn))
				s.run("state => ERR")
			})
		}
	}
}

func TestRules(t *testing.T) {
	for _, r := range slices.Concat(rules, edgeRules) {
		t.Run(r.name, func(t *testing.T) {
			s := newScript(t, r.cfg)
			for line := range strings.Lines(r.script) {
				s.run(line)
			}
		})
	}
}

// script runs the lines of a rule on one queue pair.
type script struct {
	t     *testing.T
	qp    *rc.QP
	rq    *rc.RecvQueue
	now   units.Time
	eff   rc.Effects
	d     rc.Descriptor
	deny  bool
	wait  bool
	sends uint64
	recvs uint64
	under []rc.Descriptor // described and not yet sent
}

func newScript(t *testing.T, cfg func(*rc.Config, *rc.SendConfig)) *script {
	rq, err := rc.NewRecvQueue(8)
	if err != nil {
		t.Fatal(err)
	}
	c := rc.Config{
		MTU: 256, SendDepth: 8, Recv: rq, MaxDestRdAtomic: 4, MinRNRTimer: 1,
		Access: ib.AccessRemoteWrite | ib.AccessRemoteRead | ib.AccessRemoteAtomic,
	}
	s := rc.SendConfig{Timeout: 4, RetryCount: 7, RNRRetry: 6, MaxRdAtomic: 4}
	if cfg != nil {
		cfg(&c, &s)
	}
	qp, err := rc.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if s.Timeout != 99 {
		if err := qp.ReadyToSend(s); err != nil {
			t.Fatal(err)
		}
	}
	return &script{t: t, qp: qp, rq: rq}
}

func (s *script) run(line string) {
	s.t.Helper()
	line = strings.TrimSpace(line)
	if line == "" {
		return
	}
	action, want, _ := strings.Cut(line, "=>")
	want = strings.TrimSpace(want)
	got := s.do(strings.TrimSpace(action))
	if got != want {
		s.t.Fatalf("%s\n got %q\nwant %q", line, got, want)
	}
}

var opcodes = func() map[string]ib.Opcode {
	m := map[string]ib.Opcode{"ACK": ib.Acknowledge}
	for op := range ib.Opcode(32) {
		m[strings.TrimPrefix(op.String(), "RC_")] = op
		m[(ib.ServiceUC | op).String()] = ib.ServiceUC | op
		m[(ib.ServiceUD | op).String()] = ib.ServiceUD | op
	}
	return m
}()

var wrOpcodes = map[string]ib.WROpcode{
	"SEND": ib.WRSend, "SEND_WITH_IMM": ib.WRSendWithImm, "SEND_WITH_INV": ib.WRSendWithInv, "WRITE": ib.WRRDMAWrite,
	"WRITE_WITH_IMM": ib.WRRDMAWriteWithImm, "READ": ib.WRRDMARead, "FETCH_ADD": ib.WRAtomicFetchAndAdd,
	"CMP_SWAP": ib.WRAtomicCmpAndSwp, "LOCAL_INV": ib.WRLocalInv,
}

// args splits words into numbers in order, key=value pairs and flags.
func args(words []string) (numbers []uint64, values map[string]uint64) {
	values = map[string]uint64{}
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok {
			values[k], _ = strconv.ParseUint(v, 0, 64)
		} else if n, err := strconv.ParseUint(w, 0, 64); err == nil {
			numbers = append(numbers, n)
		} else {
			values[w] = 1
		}
	}
	return append(numbers, 0, 0), values
}

func (s *script) do(action string) string {
	words := strings.Fields(action)
	n, _ := args(words[1:])
	switch words[0] {
	case "post":
		n, v := args(words[2:])
		_, err := s.qp.PostSend(&rc.Request{
			ID: s.sends, Op: wrOpcodes[words[1]], Length: uint32(n[0]), RemoteAddr: v["va"], Imm: uint32(v["imm"]),
			Signaled: v["unsignaled"] == 0, Fence: v["fence"] == 1, Solicited: v["S"] == 1,
		})
		s.sends++
		if err != nil {
			return err.Error()
		}
		return ""
	case "recv":
		if _, err := s.rq.Post(rc.Recv{ID: s.recvs, Length: uint32(n[0])}); err != nil {
			s.t.Fatal(err)
		}
		s.recvs++
		return ""
	case "send", "send1":
		var out []string
		for s.qp.NextRequest(s.now, &s.d) {
			out = append(out, request2string(&s.d))
			if s.d.Source != rc.SourceLocalInv {
				s.under = append(s.under, s.d)
			}
			if words[0] == "send1" {
				break
			}
		}
		return strings.Join(out, "; ")
	case "out", "out1":
		var out []string
		for s.qp.ResponseReady() && s.qp.NextResponse(s.now, &s.d) {
			out = append(out, response2string(&s.d))
			if words[0] == "out1" {
				break
			}
		}
		return strings.Join(out, "; ")
	case "in":
		n, v := args(words[2:])
		op, ok := opcodes[words[1]]
		if !ok {
			raw, err := strconv.ParseUint(words[1], 0, 8)
			if err != nil {
				s.t.Fatalf("no opcode %q", words[1])
			}
			op = ib.Opcode(raw)
		}
		key := uint32(7)
		if k, ok := v["key"]; ok {
			key = uint32(k)
		}
		h := rc.Header{
			Opcode: op, PSN: units.PSN(n[0]), AckReq: v["A"] == 1, Solicited: v["S"] == 1, VA: v["va"], RKey: key,
			DMALen: uint32(v["len"]), Imm: uint32(v["imm"]), MSN: uint32(v["msn"]), Syndrome: rc.SyndromeUnlimited, Orig: 1,
		}
		if syn, ok := v["syn"]; ok {
			h.Syndrome = uint8(syn)
		}
		s.qp.Receive(s.now, &h, int(n[1]), &s.eff)
		out := s.effects()
		if s.eff.Do&rc.DoCheck != 0 && !s.wait {
			answer := " ok"
			if s.deny {
				answer = " denied"
			}
			s.qp.Checked(s.now, !s.deny, &s.eff)
			out += answer
			if more := s.effects(); more != "" {
				out += ", " + more
			}
		}
		return out
	case "checked":
		s.qp.Checked(s.now, true, &s.eff)
		return s.effects()
	case "deny":
		s.deny = true
		return ""
	case "wait":
		s.wait = true
		return ""
	case "limit":
		s.rq.SetLimit(int(n[0]))
		return ""
	case "done":
		s.qp.AtomicDone(uint32(n[0]), n[1])
		return ""
	case "poll":
		var out []string
		var c rc.SendCompletion
		for s.qp.PollSend(&c) {
			out = append(out, fmt.Sprintf("%d %v", c.ID, c.Status))
		}
		var r rc.RecvCompletion
		for s.qp.PollRecv(&r) {
			out = append(out, fmt.Sprintf("recv %d %v", r.ID, r.Status))
		}
		return strings.Join(out, "; ")
	case "at":
		at, err := units.ParseTime(strings.TrimPrefix(words[1], "+"))
		if err != nil {
			s.t.Fatal(err)
		}
		if strings.HasPrefix(words[1], "+") {
			at += s.now
		}
		s.now = at
		s.qp.Expire(s.now, &s.eff)
		return s.effects()
	case "now":
		at, err := units.ParseTime(words[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now = at
		return ""
	case "deadline":
		return s.qp.Deadline().String()
	case "state":
		return s.qp.State().String()
	case "fresh":
		return strconv.FormatBool(s.qp.Fresh(&s.d))
	case "inflight":
		return strconv.FormatInt(int64(s.qp.Inflight()), 10)
	case "counters":
		var out []string
		c := reflect.ValueOf(s.qp.Counters()).Elem()
		for i := range c.NumField() {
			if n := c.Field(i).Uint(); n != 0 {
				out = append(out, fmt.Sprintf("%s %d", c.Type().Field(i).Name, n))
			}
		}
		return strings.Join(out, ", ")
	case "drain":
		if err := s.qp.Drain(&s.eff); err != nil {
			s.t.Fatal(err)
		}
		return s.effects()
	case "resume":
		if err := s.qp.Resume(); err != nil {
			s.t.Fatal(err)
		}
		return ""
	case "error":
		s.qp.ToError(&s.eff)
		return s.effects()
	case "failsend":
		s.qp.FailSend(s.now, uint32(n[0]), ib.WCLocProtErr, &s.eff)
		return s.effects()
	case "sent":
		var out []string
		for range n[0] {
			s.qp.Sent(&s.under[0], &s.eff)
			s.under = s.under[1:]
			if e := s.effects(); e != "" {
				out = append(out, e)
			}
		}
		return strings.Join(out, "; ")
	case "sentbehind":
		i := n[0]
		s.qp.Sent(&s.under[i], &s.eff)
		s.under = append(s.under[:i], s.under[i+1:]...)
		return s.effects()
	case "failaccess":
		s.qp.FailRecv(s.now, ib.WCRemAccessErr, &s.eff)
		return s.effects()
	case "failrecv":
		s.qp.FailRecv(s.now, ib.WCLocProtErr, &s.eff)
		return s.effects()
	case "failresponse":
		s.qp.FailResponse(s.now, &s.d, ib.WCLocProtErr, &s.eff)
		if s.qp.Fresh(&s.d) {
			return "still fresh"
		}
		return s.effects()
	}
	s.t.Fatalf("no action %q", action)
	return ""
}

func request2string(d *rc.Descriptor) string {
	h := &d.Header
	if d.Source == rc.SourceLocalInv {
		return fmt.Sprintf("LOCAL_INV %d", h.Imm)
	}
	s := fmt.Sprintf("%s %d %d", strings.TrimPrefix(h.Opcode.String(), "RC_"), h.PSN, d.Payload)
	switch h.Opcode.Operation() {
	case ib.WriteFirst, ib.WriteOnly, ib.WriteOnlyImm, ib.ReadRequest:
		s += fmt.Sprintf(" va=%d len=%d", h.VA, h.DMALen)
	case ib.FetchAdd, ib.CompareSwap:
		s += fmt.Sprintf(" va=%d", h.VA)
	}
	if h.Imm != 0 {
		s += fmt.Sprintf(" imm=%d", h.Imm)
	}
	if h.AckReq {
		s += " A"
	}
	if h.Solicited {
		s += " S"
	}
	if d.Retransmit {
		s += " R"
	}
	return s
}

func response2string(d *rc.Descriptor) string {
	h := &d.Header
	switch h.Opcode {
	case ib.Acknowledge:
		name := "ACK"
		switch {
		case h.Syndrome >= rc.SyndromeSequence:
			name = "NAK"
		case h.Syndrome >= rc.SyndromeRNR:
			name = "RNR"
		}
		return fmt.Sprintf("%s %d syn=%#x msn=%d", name, h.PSN, h.Syndrome, h.MSN)
	case ib.AtomicAcknowledge:
		return fmt.Sprintf("ATOMIC_ACKNOWLEDGE %d %d msn=%d", h.PSN, h.Orig, h.MSN)
	}
	s := fmt.Sprintf("%s %d %d", strings.TrimPrefix(h.Opcode.String(), "RC_"), h.PSN, d.Payload)
	if d.Source == rc.SourceMemory {
		s += fmt.Sprintf(" va=%d", d.VA)
	}
	if h.Opcode != ib.ReadResponseMiddle {
		s += fmt.Sprintf(" msn=%d", h.MSN)
	}
	return s
}

var dropNames = map[rc.Drop]string{
	rc.DropState: "state", rc.DropBusy: "busy", rc.DropOpcode: "opcode", rc.DropDuplicate: "duplicate",
	rc.DropSequence: "sequence", rc.DropNotReady: "not ready", rc.DropInvalid: "invalid", rc.DropAccess: "access",
	rc.DropGhost: "ghost", rc.DropOutOfOrder: "out of order", rc.DropBadResponse: "bad response",
}

func (s *script) effects() string {
	e := &s.eff
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if e.Drop != rc.DropNone {
		add("drop %s", dropNames[e.Drop])
	}
	if e.Rewind != rc.RewindNone {
		add("rewind %s", [...]string{"", "sequence", "implied", "timeout", "not ready"}[e.Rewind])
	}
	if e.AckedPackets != 0 {
		add("acked %d/%d", int64(e.AckedBytes), e.AckedPackets)
	}
	if e.Do&rc.DoCheck != 0 {
		c := e.Check
		what := map[ib.AccessFlags]string{ib.AccessRemoteWrite: "write", ib.AccessRemoteRead: "read", ib.AccessRemoteAtomic: "atomic"}[c.Access]
		if c.Invalidate {
			add("check invalidate %d", c.RKey)
		} else {
			add("check %s %d+%d", what, c.VA, c.Length)
		}
	}
	if e.Do&rc.DoPlace != 0 {
		switch p := e.Place; p.Kind {
		case rc.PlaceMemory:
			add("place memory %d %d", p.VA, p.Length)
		case rc.PlaceRecv:
			add("place recv %d+%d %d", p.Slot, p.Offset, p.Length)
		case rc.PlaceRead:
			add("place read %d+%d %d", p.Slot, p.Offset, p.Length)
		case rc.PlaceAtomic:
			add("place atomic %d", p.Slot)
		}
	}
	if e.Do&rc.DoAtomic != 0 {
		add("atomic %s %d %d", strings.TrimPrefix(e.Atomic.Op.String(), "RC_"), e.Atomic.Slot, e.Atomic.VA)
	}
	if e.Do&rc.DoRecv != 0 {
		c := e.Recv
		text := fmt.Sprintf("recv %d %v %d", c.ID, c.Opcode, c.Bytes)
		if c.HasImm {
			text += fmt.Sprintf(" imm=%d", c.Imm)
		}
		if c.HasInvalidate {
			text += fmt.Sprintf(" inv=%d", c.Imm)
		}
		if c.Solicited {
			text += " S"
		}
		out = append(out, text)
	}
	for ev := range ib.EventType(32) {
		if e.Events.Has(ev) {
			add("event %v", ev)
		}
	}
	return strings.Join(out, ", ")
}
