package rc_test

import (
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
)

// udRules are the rules of datagrams (IBA 9.8.3), scripts as in rules.
var udRules = []struct {
	name   string
	cfg    func(*rc.Config, *rc.SendConfig)
	script string
}{
	// The requester.
	{name: "one packet a message; it completes when it has left", cfg: func(_ *rc.Config, s *rc.SendConfig) { s.InitialPSN = 0xffffff }, script: `
		post SEND 0
		post SEND_WITH_IMM 256 imm=5 S
		send => UD_SEND_ONLY 16777215 0; UD_SEND_ONLY_IMM 0 256 imm=5 S
		poll
		sent 1
		poll => 0 success
		sent 1
		poll => 1 success
		deadline => never`},
	{name: "no message is above the MTU, and there are SENDs only", script: `
		post SEND 257 => rc: a datagram of 257 bytes, expected at most 256, one packet
		post WRITE 1 => rc: RDMA_WRITE on a datagram queue pair, which has SEND, with or without immediate data
		post READ 1 => rc: RDMA_READ on a datagram queue pair, which has SEND, with or without immediate data
		post SEND_WITH_INV 1 => rc: SEND_WITH_INV on a datagram queue pair, which has SEND, with or without immediate data
		post LOCAL_INV 0 => rc: LOCAL_INV on a datagram queue pair, which has SEND, with or without immediate data
		post SEND 1
		send => UD_SEND_ONLY 0 1`},
	{name: "one may overtake another, and completes behind it", script: `
		post SEND 1
		post SEND 2 unsignaled
		post SEND 3
		send => UD_SEND_ONLY 0 1; UD_SEND_ONLY 1 2; UD_SEND_ONLY 2 3
		sentbehind 2
		poll
		sentbehind 1
		poll
		sent 1
		poll => 0 success; 2 success`},
	{name: "the window is of what has not left", cfg: func(_ *rc.Config, s *rc.SendConfig) { s.Window = 2 }, script: `
		post SEND 1
		post SEND 2
		post SEND 3
		send => UD_SEND_ONLY 0 1; UD_SEND_ONLY 1 2
		sentbehind 1
		send
		sent 1
		send => UD_SEND_ONLY 2 3
		sent 1
		poll => 0 success; 1 success; 2 success`},
	{name: "a local error ends the send queue, not the receives (10.3.1.6)", script: `
		recv 50
		post SEND 1
		post SEND 30
		post SEND 2
		send1 => UD_SEND_ONLY 0 1
		send1 => UD_SEND_ONLY 1 30
		failsend 1
		state => RTS
		sent 1
		state => SQE
		sent 1
		poll => 0 success; 1 local protection error; 2 work request flushed
		in UD_SEND_ONLY 0 5 => place recv 0+0 45, recv 0 RECV 45
		resume
		post SEND 4
		send => UD_SEND_ONLY 2 4
		sent 1
		poll => 3 success`},
	{name: "drained when the last has left", script: `
		post SEND 1
		post SEND 2
		send1 => UD_SEND_ONLY 0 1
		drain
		send
		sent 1 => event send queue drained
		resume
		send => UD_SEND_ONLY 1 2`},

	// The responder.
	{name: "the global route header is before the payload, whatever the PSN", script: `
		recv 100
		recv 100
		recv 100
		in UD_SEND_ONLY 7 60 => place recv 0+0 100, recv 0 RECV 100
		in UD_SEND_ONLY_IMM 7 0 imm=4 S => place recv 1+0 40, recv 1 RECV 40 imm=4 S
		in UD_SEND_ONLY 1 1 A => place recv 2+0 41, recv 2 RECV 41
		out`},
	{name: "without a receive, or with one too small, it is dropped", script: `
		in UD_SEND_ONLY 0 1 => drop not ready
		recv 40
		in UD_SEND_ONLY 1 1 => drop invalid
		in UD_SEND_ONLY 2 0 => place recv 0+0 40, recv 0 RECV 40
		state => RTS
		out`},
	{name: "what is none", script: `
		recv 1000
		in UD_SEND_FIRST 0 256 => drop opcode
		in UD_WRITE_ONLY 0 0 => drop opcode
		in SEND_ONLY 0 1 => drop opcode
		in UC_SEND_ONLY 0 1 => drop opcode
		in ACK 0 => drop opcode
		in UD_SEND_ONLY 0 257 => drop invalid
		state => RTS
		out`},
	{name: "memory that a receive names wrongly ends the queue pair", script: `
		recv 100
		recv 100
		in UD_SEND_ONLY 0 1 => place recv 0+0 41, recv 0 RECV 41
		failrecv
		state => ERR
		in UD_SEND_ONLY 1 1 => drop state
		poll => recv 1 work request flushed`},
}

func TestDatagramRules(t *testing.T) {
	for _, r := range udRules {
		t.Run(r.name, func(t *testing.T) {
			s := newScript(t, func(c *rc.Config, s *rc.SendConfig) {
				c.Type, c.MaxDestRdAtomic, c.MinRNRTimer, c.Access = ib.UD, 0, 0, 0
				*s = rc.SendConfig{}
				if r.cfg != nil {
					r.cfg(c, s)
				}
			})
			for line := range strings.Lines(r.script) {
				s.run(line)
			}
		})
	}
}

func TestQKey(t *testing.T) {
	for _, c := range [][3]uint32{{5, 7, 5}, {1<<31 | 5, 7, 7}, {0, 7, 0}} {
		if got := rc.QKey(c[0], c[1]); got != c[2] {
			t.Errorf("a request's %#x of a queue pair with %#x: %#x, want %#x", c[0], c[1], got, c[2])
		}
	}
}
