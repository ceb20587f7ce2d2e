package rc_test

import (
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
)

// ucRules are the rules of unreliable connections (IBA 9.8), scripts as in rules.
var ucRules = []struct {
	name   string
	cfg    func(*rc.Config, *rc.SendConfig)
	script string
}{
	// The requester.
	{name: "cut as on RC, with UC's opcodes, and nothing asks for an ACK; the last packet sent completes", script: `
		post WRITE 600 va=1000
		post SEND_WITH_IMM 10 imm=5 S
		send => UC_WRITE_FIRST 0 256 va=1000 len=600; UC_WRITE_MIDDLE 1 256; UC_WRITE_LAST 2 88; UC_SEND_ONLY_IMM 3 10 imm=5 S
		poll
		sent 2
		poll
		sent 1
		poll => 0 success
		sent 1
		poll => 1 success
		deadline => never`},
	{name: "no ACK is waited for, none is heard", script: `
		post SEND 1
		send => UC_SEND_ONLY 0 1
		in UC_ACKNOWLEDGE 0 => drop opcode
		in ACK 0 syn=0x61 => drop opcode
		in SEND_ONLY 0 1 => drop opcode
		at 1s
		sent 1
		poll => 0 success`},
	{name: "what UC has not is refused", script: `
		post READ 1 => rc: RDMA_READ on an unreliable connection, which has SEND and RDMA WRITE, with or without immediate data
		post FETCH_ADD 8 => rc: ATOMIC_FETCH_AND_ADD on an unreliable connection, which has SEND and RDMA WRITE, with or without immediate data
		post SEND_WITH_INV 1 => rc: SEND_WITH_INV on an unreliable connection, which has SEND and RDMA WRITE, with or without immediate data
		post LOCAL_INV 0 imm=9
		send => LOCAL_INV 9
		poll => 3 success`},
	{name: "unsignaled requests complete in silence", script: `
		post SEND 1 unsignaled
		post SEND 2
		send => UC_SEND_ONLY 0 1; UC_SEND_ONLY 1 2
		sent 2
		poll => 1 success`},
	{name: "the window is of what has not left", cfg: func(_ *rc.Config, s *rc.SendConfig) { s.Window = 2 }, script: `
		post SEND 1024
		send => UC_SEND_FIRST 0 256; UC_SEND_MIDDLE 1 256
		sent 1
		send => UC_SEND_MIDDLE 2 256
		sent 2
		send => UC_SEND_LAST 3 256
		sent 1
		poll => 0 success`},
	{name: "PSNs wrap around", cfg: func(_ *rc.Config, s *rc.SendConfig) { s.InitialPSN = 0xffffff }, script: `
		post SEND 300
		post SEND 1
		send => UC_SEND_FIRST 16777215 256; UC_SEND_LAST 0 44; UC_SEND_ONLY 1 1
		sent 3
		poll => 0 success; 1 success`},
	{name: "a local error ends the send queue, not the receives (10.3.1.6)", script: `
		recv 10
		post SEND 1
		post SEND 300
		post SEND 2
		send1 => UC_SEND_ONLY 0 1
		send1 => UC_SEND_FIRST 1 256
		failsend 1
		state => RTS
		sent 1
		state => SQE
		sent 1
		poll => 0 success; 1 local protection error; 2 work request flushed
		post SEND 3
		send
		poll => 3 work request flushed
		in UC_SEND_ONLY 0 5 => place recv 0+0 5, recv 0 RECV 5
		resume
		state => RTS
		post SEND 4
		send => UC_SEND_ONLY 2 4
		sent 1
		poll => 4 success`},
	{name: "in error from SQE, the receives too", script: `
		recv 10
		post SEND 1
		send => UC_SEND_ONLY 0 1
		failsend 0
		state => SQE
		error
		state => ERR
		poll => 0 local protection error; recv 0 work request flushed`},
	{name: "drained when the last packet has left", script: `
		post SEND 300
		post SEND 1
		send1 => UC_SEND_FIRST 0 256
		drain
		send => UC_SEND_LAST 1 44
		sent 2 => event send queue drained
		poll => 0 success
		resume
		send => UC_SEND_ONLY 2 1`},

	// The responder.
	{name: "messages are placed as on RC, and nothing is answered", script: `
		recv 1000
		recv 1000
		in UC_SEND_FIRST 0 256 A => place recv 0+0 256
		in UC_SEND_MIDDLE 1 256 => place recv 0+256 256
		in UC_SEND_LAST_IMM 2 9 imm=4 A S => place recv 0+512 9, recv 0 RECV 521 imm=4 S
		in UC_WRITE_FIRST 3 256 va=5000 len=300 => check write 5000+300 ok, place memory 5000 256
		in UC_WRITE_LAST 4 44 A => place memory 5256 44
		in UC_WRITE_ONLY_IMM 5 1 va=1 len=1 imm=8 => check write 1+1 ok, place memory 1 1, recv 1 RECV_RDMA_WITH_IMM 1 imm=8
		in UC_SEND_ONLY 6 0 => drop not ready
		out`},
	{name: "a gap drops the message, its receive is for the next First or Only (9.8.3)", script: `
		recv 1000
		in UC_SEND_FIRST 0 256 => place recv 0+0 256
		in UC_SEND_MIDDLE 2 256 => drop sequence
		in UC_SEND_LAST 3 1 => drop sequence
		in UC_SEND_ONLY 4 5 => place recv 0+0 5, recv 0 RECV 5
		out`},
	{name: "a gap between messages costs nothing more", script: `
		recv 10
		in UC_SEND_ONLY 7 5 => place recv 0+0 5, recv 0 RECV 5
		in UC_WRITE_FIRST 9 256 va=0 len=257 => check write 0+257 ok, place memory 0 256
		in UC_WRITE_LAST 10 1 => place memory 256 1`},
	{name: "a gap within a WRITE: no immediate comes", script: `
		recv 10
		in UC_WRITE_FIRST 0 256 va=0 len=600 => check write 0+600 ok, place memory 0 256
		in UC_WRITE_LAST_IMM 2 88 imm=1 => drop sequence
		in UC_WRITE_ONLY_IMM 3 0 imm=2 => recv 0 RECV_RDMA_WITH_IMM 0 imm=2`},
	{name: "a First after a First: the sender gave the message up", script: `
		recv 1000
		in UC_SEND_FIRST 0 256 => place recv 0+0 256
		in UC_SEND_FIRST 1 256 => place recv 0+0 256
		in UC_SEND_LAST 2 4 => place recv 0+256 4, recv 0 RECV 260
		in UC_WRITE_FIRST 3 256 va=0 len=600 => check write 0+600 ok, place memory 0 256
		in UC_WRITE_ONLY 4 1 va=9 len=1 => check write 9+1 ok, place memory 9 1`},
	{name: "packets that the network doubled or delayed are dropped", script: `
		recv 1000
		recv 1000
		in UC_SEND_ONLY 0 5 => place recv 0+0 5, recv 0 RECV 5
		in UC_SEND_ONLY 0 5 => drop duplicate
		in UC_SEND_FIRST 2 256 => place recv 1+0 256
		in UC_SEND_ONLY 1 5 => drop duplicate
		in UC_SEND_LAST 3 1 => place recv 1+256 1, recv 1 RECV 257`},
	{name: "far behind is far ahead: the sender went on while nothing came", script: `
		recv 10
		in UC_SEND_ONLY 16711680 1 => drop duplicate
		in UC_SEND_ONLY 16711679 1 => place recv 0+0 1, recv 0 RECV 1`},
	{name: "without a receive the message is dropped", script: `
		in UC_SEND_FIRST 0 256 => drop not ready
		recv 1000
		in UC_SEND_LAST 1 1 => drop sequence
		in UC_SEND_ONLY 2 1 => place recv 0+0 1, recv 0 RECV 1
		in UC_WRITE_ONLY_IMM 3 0 imm=1 => drop not ready`},
	{name: "a receive that is too short is kept for a message that fits", script: `
		recv 300
		in UC_SEND_FIRST 0 256 => place recv 0+0 256
		in UC_SEND_LAST 1 45 => drop invalid
		in UC_SEND_ONLY 2 256 => place recv 0+0 256, recv 0 RECV 256
		state => RTS`},
	{name: "a WRITE with immediate takes the receive of a message that was dropped", script: `
		recv 300
		in UC_SEND_FIRST 0 256 => place recv 0+0 256
		in UC_WRITE_ONLY_IMM 1 0 imm=3 => recv 0 RECV_RDMA_WITH_IMM 0 imm=3`},
	{name: "a wrong key drops the message", script: `
		recv 10
		deny
		in UC_WRITE_FIRST 0 256 va=0 len=300 => check write 0+300 denied, drop access
		in UC_WRITE_LAST_IMM 1 44 => drop sequence
		in UC_SEND_ONLY 2 1 => place recv 0+0 1, recv 0 RECV 1
		out
		state => RTS`},
	{name: "a key that goes in the middle of a message drops the rest", script: `
		in UC_WRITE_FIRST 0 256 va=0 len=600 => check write 0+600 ok, place memory 0 256
		in UC_WRITE_MIDDLE 1 256 => place memory 256 256
		failaccess
		in UC_WRITE_LAST 2 88 => drop sequence
		state => RTS`},
	{name: "a WRITE where none is admitted is dropped",
		cfg: func(c *rc.Config, _ *rc.SendConfig) { c.Access = 0 }, script: `
		in UC_WRITE_ONLY 0 1 va=0 len=1 => drop invalid
		state => RTS`},
	{name: "memory that a receive names wrongly ends the queue pair (9.9.3, class A)", script: `
		recv 1000
		recv 1000
		in UC_SEND_FIRST 0 256 => place recv 0+0 256
		failrecv
		state => ERR
		poll => recv 0 local protection error; recv 1 work request flushed
		out`},
	{name: "the receive that a dropped message held is flushed first", script: `
		recv 1000
		recv 1000
		in UC_SEND_FIRST 0 256 => place recv 0+0 256
		in UC_SEND_LAST 2 256 => drop sequence
		error
		poll => recv 0 work request flushed; recv 1 work request flushed`},
	{name: "the first packet says that the peer is there", cfg: func(_ *rc.Config, s *rc.SendConfig) { s.Timeout = 99 }, script: `
		recv 10
		in UC_SEND_ONLY 0 1 => place recv 0+0 1, recv 0 RECV 1, event communication established
		in UC_SEND_ONLY 1 1 => drop not ready`},
	{name: "a check under way", script: `
		wait
		in UC_WRITE_ONLY 0 1 va=3 len=1 => check write 3+1
		in UC_WRITE_ONLY 1 1 va=3 len=1 => drop busy
		checked => place memory 3 1
		in UC_WRITE_ONLY 2 1 va=4 len=1 => check write 4+1
		checked => place memory 4 1`},
}

func ucConfig(more func(*rc.Config, *rc.SendConfig)) func(*rc.Config, *rc.SendConfig) {
	return func(c *rc.Config, s *rc.SendConfig) {
		c.Type, c.MaxDestRdAtomic, c.MinRNRTimer = ib.UC, 0, 0
		*s = rc.SendConfig{}
		if more != nil {
			more(c, s)
		}
	}
}

func TestUnreliableRules(t *testing.T) {
	for _, r := range ucRules {
		t.Run(r.name, func(t *testing.T) {
			s := newScript(t, ucConfig(r.cfg))
			for line := range strings.Lines(r.script) {
				s.run(line)
			}
		})
	}
}

// Every packet that can't follow what came before is dropped, nothing is answered,
// and the next message is taken.
func TestUnreliableInvalidRequests(t *testing.T) {
	begin := map[string]string{
		"nothing": "", "a SEND": "in UC_SEND_FIRST 0 256 => place recv 0+0 256",
		"a WRITE": "in UC_WRITE_FIRST 0 256 va=0 len=600 => check write 0+600 ok, place memory 0 256",
	}
	for after, lines := range map[string][]string{
		"nothing": {
			"UC_SEND_MIDDLE 256", "UC_SEND_LAST 1", "UC_SEND_LAST_IMM 1", "UC_WRITE_MIDDLE 256", "UC_WRITE_LAST 1", "UC_WRITE_LAST_IMM 1",
			"UC_SEND_FIRST 255", "UC_SEND_FIRST 0", "UC_SEND_FIRST 257", "UC_SEND_ONLY 257", "UC_WRITE_FIRST 256 len=256",
			"UC_WRITE_FIRST 255 len=600", "UC_WRITE_ONLY 10 len=11", "UC_WRITE_ONLY_IMM 256 len=257", "UC_WRITE_ONLY 2 va=0xffffffffffffffff len=2",
			"0x2c 0", "0x31 0", "0x33 0", "0x34 0", "0x36 1", "0x37 1", "0x3f 0", "4 1", "0x64 1", "0x81 0",
		},
		"a SEND":  {"UC_WRITE_MIDDLE 256", "UC_WRITE_LAST 1", "UC_SEND_MIDDLE 255", "UC_SEND_LAST 0", "UC_SEND_LAST 257", "0x2c 0"},
		"a WRITE": {"UC_SEND_MIDDLE 256", "UC_SEND_LAST 1", "UC_WRITE_MIDDLE 255", "UC_WRITE_LAST 88 key=7 A S", "UC_WRITE_LAST 0", "UC_WRITE_LAST 345"},
	} {
		for _, l := range lines {
			t.Run(l+" after "+after, func(t *testing.T) {
				s := newScript(t, ucConfig(nil))
				s.run("recv 1000")
				s.run(begin[after])
				op, rest, _ := strings.Cut(l, " ")
				psn := " 0 "
				if begin[after] != "" {
					psn = " 1 "
				}
				if got := s.do("in " + op + psn + rest); !strings.HasPrefix(got, "drop ") {
					t.Errorf("got %q", got)
				}
				s.run("out")
				s.run("in UC_SEND_ONLY 5 3 => place recv 0+0 3, recv 0 RECV 3")
				s.run("state => RTS")
			})
		}
	}
}
