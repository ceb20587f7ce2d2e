package rc_test

import "github.com/sluice-rdma/sluice/roce/rc"

func reorders(c *rc.Config, _ *rc.SendConfig) { c.Reorder = 64 }

// edgeRules are rules as those of rules, of what seldom happens: answers and requests that do
// not fit, and selective repeat.
var edgeRules = []struct {
	name   string
	cfg    func(*rc.Config, *rc.SendConfig)
	script string
}{
	{name: "answers that come before the request has gone again begin nothing anew", script: `
		post READ 1000
		send => READ_REQUEST 0 0 va=0 len=1000 A
		in READ_RESPONSE_FIRST 0 256 => acked 256/1, place read 0+0 256
		in READ_RESPONSE_MIDDLE 2 256 => drop out of order, rewind implied
		in READ_RESPONSE_LAST 3 232 => drop out of order
		in READ_RESPONSE_MIDDLE 2 256 => drop out of order
		counters => ImpliedNakSeqErr 1, SentPackets 1`},
	{name: "a stale duplicate READ makes room, and leaves the others their order", script: `
		in READ_REQUEST 0 va=0 len=1 => check read 0+1 ok
		in READ_REQUEST 1 va=1 len=1 => check read 1+1 ok
		in READ_REQUEST 2 va=2 len=1 => check read 2+1 ok
		in READ_REQUEST 3 va=3 len=1 => check read 3+1 ok
		out1 => READ_RESPONSE_ONLY 0 1 va=0 msn=1
		out1 => READ_RESPONSE_ONLY 1 1 va=1 msn=2
		in READ_REQUEST 0 va=0 len=1 => drop duplicate, check read 0+1 ok, drop duplicate
		in READ_REQUEST 4 va=4 len=1 => check read 4+1 ok
		out => READ_RESPONSE_ONLY 2 1 va=2 msn=3; READ_RESPONSE_ONLY 3 1 va=3 msn=4; READ_RESPONSE_ONLY 4 1 va=4 msn=5
		counters => DuplicateRequest 1, RxReadRequests 5`},
	{name: "no response is sent after the application has ended the queue pair", script: `
		in READ_REQUEST 0 va=0 len=600 => check read 0+600 ok
		out1 => READ_RESPONSE_FIRST 0 256 va=0 msn=1
		fresh => true
		error
		fresh => false
		out
		failresponse
		failrecv local protection error
		counters => RxReadRequests 1`},
	{name: "a response that was owed when a packet was refused is sent", script: `
		in READ_REQUEST 0 va=0 len=600 => check read 0+600 ok
		out1 => READ_RESPONSE_FIRST 0 256 va=0 msn=1
		in 0x18 3 0 => drop invalid, event invalid request local work queue error
		fresh => true
		out => READ_RESPONSE_MIDDLE 1 256 va=256; READ_RESPONSE_LAST 2 88 va=512 msn=1; NAK 3 syn=0x61 msn=1
		counters => RespRemoteInvalidRequest 1, RxReadRequests 1, SentNaks 1`},
	{name: "a duplicate with an opcode that there is not is dropped", script: `
		in WRITE_ONLY 0 0 va=0 len=0 A
		out => ACK 0 syn=0x1f msn=1
		in 0x18 0 0 A => drop opcode
		out
		counters => DuplicateRequest 1, RxWriteRequests 1, SentAcks 1`},
	{name: "a duplicate atomic elsewhere is dropped", script: `
		in FETCH_ADD 0 va=8 => check atomic 8+8 ok, atomic FETCH_ADD 0 8
		done 0 5
		out => ATOMIC_ACKNOWLEDGE 0 5 msn=1
		in FETCH_ADD 0 va=16 => drop duplicate
		in FETCH_ADD 0 va=8 key=8 => drop duplicate
		in READ_REQUEST 0 va=8 len=8 => drop duplicate
		out
		counters => DuplicateRequest 3, RxAtomicRequests 1`},
	{name: "a READ that goes past the end of the address space", script: `
		in READ_REQUEST 0 va=0xffffffffffffffff len=2 => drop access, event local access violation work queue error
		out => NAK 0 syn=0x62 msn=0
		counters => RespRemoteAccessErrors 1, SentNaks 1`},
	{name: "a request that is not there, or was completed, can't fail", script: `
		failsend 0
		state => RTS
		post WRITE 1
		post WRITE 1
		post WRITE 1
		send => WRITE_ONLY 0 1 va=0 len=1 A; WRITE_ONLY 1 1 va=0 len=1 A; WRITE_ONLY 2 1 va=0 len=1 A
		in ACK 0 => acked 1/1
		poll => 0 success
		failsend 0
		failsend 3
		state => RTS
		error
		failsend 1
		failsend 2
		poll => 1 work request flushed; 2 work request flushed
		failsend 1
		state => ERR`},
	{name: "one that was acknowledged and not polled can still fail, also in ERR", script: `
		post WRITE 1
		post WRITE 1
		send => WRITE_ONLY 0 1 va=0 len=1 A; WRITE_ONLY 1 1 va=0 len=1 A
		in ACK 0 => acked 1/1
		error
		failsend 0
		poll => 0 local protection error; 1 work request flushed`},
	{name: "every answer that goes back is counted, and what it makes go again", script: `
		post SEND 600
		send => SEND_FIRST 0 256; SEND_MIDDLE 1 256; SEND_LAST 2 88 A
		in ACK 0 syn=0x60 => rewind sequence
		send => SEND_FIRST 0 256 R; SEND_MIDDLE 1 256 R; SEND_LAST 2 88 A R
		in ACK 0 syn=0x23 => rewind not ready
		at 30us
		send => SEND_FIRST 0 256 R; SEND_MIDDLE 1 256 R; SEND_LAST 2 88 A R
		at 100us => rewind timeout
		in ACK 7 => drop ghost
		in ACK 0 syn=0x45 => drop ghost
		in ACK 0 syn=0x64 => drop ghost
		counters => PacketSeqErr 1, LocalAckTimeoutErr 1, RNRNakRetryErr 1, GhostResponses 3, RetransmittedPackets 6, SentPackets 9`},
	{name: "what ends a connection is counted at the end that it is told", script: `
		post WRITE 1
		send => WRITE_ONLY 0 1 va=0 len=1 A
		in ACK 0 syn=0x62
		counters => ReqRemoteAccessErrors 1, SentPackets 1`},
	{name: "invalid requests are counted at their end", script: `
		post WRITE 1
		send => WRITE_ONLY 0 1 va=0 len=1 A
		in ACK 0 syn=0x61
		counters => ReqRemoteInvalid 1, SentPackets 1`},
	{name: "operational errors are counted at their end", script: `
		post WRITE 1
		send => WRITE_ONLY 0 1 va=0 len=1 A
		in ACK 0 syn=0x63
		counters => ReqRemoteOpErr 1, SentPackets 1`},
	{name: "retries that run out are counted", cfg: func(_ *rc.Config, s *rc.SendConfig) { s.RetryCount, s.RNRRetry = 0, 0 }, script: `
		post SEND 1
		send => SEND_ONLY 0 1 A
		at 66us
		poll => 0 transport retry counter exceeded
		counters => LocalAckTimeoutErr 1, RetryExceeded 1, SentPackets 1`},
	{name: "RNR retries that run out are counted", cfg: func(_ *rc.Config, s *rc.SendConfig) { s.RetryCount, s.RNRRetry = 0, 0 }, script: `
		post SEND 1
		send => SEND_ONLY 0 1 A
		in ACK 0 syn=0x23
		poll => 0 RNR retry counter exceeded
		counters => RNRNakRetryErr 1, RNRRetryExceeded 1, SentPackets 1`},
	{name: "answers that can't be are counted", script: `
		post FETCH_ADD 8
		send => FETCH_ADD 0 0 va=0 A
		in ATOMIC_ACKNOWLEDGE 0 8 => drop bad response
		poll => 0 bad response error
		counters => BadResponses 1, SentPackets 1`},
	{name: "what a responder takes and refuses is counted", script: `
		recv 600
		recv 1
		in SEND_FIRST 0 256 => place recv 0+0 256
		in SEND_LAST 1 1 => place recv 0+256 1, recv 0 RECV 257
		in WRITE_FIRST 2 256 va=0 len=257 => check write 0+257 ok, place memory 0 256
		in WRITE_LAST 3 1 => place memory 256 1
		in FETCH_ADD 4 va=8 => check atomic 8+8 ok, atomic FETCH_ADD 0 8
		in READ_REQUEST 5 va=8 len=1 => check read 8+1 ok
		in WRITE_ONLY 7 1 va=0 len=1 => drop sequence
		in SEND_ONLY 6 2 => drop invalid
		poll => recv 1 local length error
		counters => OutOfSequence 1, RespRemoteInvalidRequest 1, RespLocalLengthError 1, RxWriteRequests 1, RxReadRequests 1, RxAtomicRequests 1, RxSendRequests 1`},

	{name: "immediate data leave with the requests that have them alone", script: `
		post SEND 1 imm=5
		post WRITE 1 imm=5
		post READ 1 imm=5
		post SEND_WITH_IMM 257 imm=5
		send => SEND_ONLY 0 1 A; WRITE_ONLY 1 1 va=0 len=1 A; READ_REQUEST 2 0 va=0 len=1 A; SEND_FIRST 3 256; SEND_LAST_IMM 4 1 imm=5 A`},

	{name: "a READ response that can't be fetched: the NAK counts the messages before it alone", script: `
		in READ_REQUEST 0 va=0 len=1 => check read 0+1 ok
		in READ_REQUEST 1 va=1 len=300 => check read 1+300 ok
		in READ_REQUEST 3 va=2 len=1 => check read 2+1 ok
		out1 => READ_RESPONSE_ONLY 0 1 va=0 msn=1
		out1 => READ_RESPONSE_FIRST 1 256 va=1 msn=2
		failresponse => event local work queue catastrophic error
		out => NAK 1 syn=0x63 msn=1`},

	// Selective repeat.
	{name: "selective: after a timeout all goes again, and its timer is that of the first", cfg: reorders, script: `
		post WRITE 600
		send => WRITE_FIRST 0 256 va=0 len=600; WRITE_MIDDLE 1 256; WRITE_LAST 2 88 A
		inflight => 600
		at 66us => rewind timeout
		inflight => 0
		send1 => WRITE_FIRST 0 256 va=0 len=600 A R
		inflight => 256
		now 100us
		send1 => WRITE_MIDDLE 1 256 A R
		deadline => 131.536us
		at 131us
		at 132us => rewind timeout
		counters => LocalAckTimeoutErr 2, RetransmittedPackets 2, SentPackets 5`},
	{name: "selective: reserved syndromes, and packets that were not sent, say nothing", cfg: reorders, script: `
		post WRITE 600
		send => WRITE_FIRST 0 256 va=0 len=600; WRITE_MIDDLE 1 256; WRITE_LAST 2 88 A
		in ACK 1 syn=0x66 => drop ghost
		in ACK 1 syn=0x64 => drop ghost
		in ACK 1 syn=0x45 => drop ghost
		in ACK 0 syn=0x65 msn=3 => drop ghost
		in ACK 0 syn=0x60 msn=3 => drop ghost
		in ACK 0 syn=0x65 msn=16777215 => drop ghost
		send
		in ACK 0 syn=0x65 msn=2 => rewind sequence
		inflight => 0
		send1 => WRITE_FIRST 0 256 va=0 len=600 A R
		in ACK 2 => acked 600/3
		inflight => 0
		send
		poll => 0 success
		counters => PacketSeqErr 1, GhostResponses 3, RetransmittedPackets 1, SentPackets 4`},
	{name: "selective: a fatal NAK ends the request that it names, when all before it are there", cfg: reorders, script: `
		post WRITE 1
		post READ 1
		post WRITE 1
		send => WRITE_ONLY 0 1 va=0 len=1 A; READ_REQUEST 1 0 va=0 len=1 A; WRITE_ONLY 2 1 va=0 len=1 A
		in ACK 2 syn=0x62 => rewind implied, acked 1/1
		state => RTS
		send => READ_REQUEST 1 0 va=0 len=1 A R
		in READ_RESPONSE_ONLY 1 1 => acked 1/1, place read 1+0 1
		in ACK 2 syn=0x62
		poll => 0 success; 1 success; 2 remote access error
		state => ERR`},
	{name: "selective: the answer of an atomic to a READ", cfg: reorders, script: `
		post READ 600
		send => READ_REQUEST 0 0 va=0 len=600 A
		in ATOMIC_ACKNOWLEDGE 0 => drop bad response
		poll => 0 bad response error
		state => ERR
		counters => BadResponses 1, SentPackets 1`},
	{name: "selective: the answer of a READ to an atomic", cfg: reorders, script: `
		post FETCH_ADD 8
		send => FETCH_ADD 0 0 va=0 A
		in READ_RESPONSE_ONLY 0 8 => drop bad response
		poll => 0 bad response error`},
	{name: "selective: the answer of a READ to a WRITE", cfg: reorders, script: `
		post WRITE 1
		send => WRITE_ONLY 0 1 va=0 len=1 A
		in READ_RESPONSE_ONLY 0 1 => drop bad response
		poll => 0 bad response error`},
	{name: "selective: the answer of an atomic with a payload", cfg: reorders, script: `
		post FETCH_ADD 8
		send => FETCH_ADD 0 0 va=0 A
		in ATOMIC_ACKNOWLEDGE 0 8 => drop bad response
		poll => 0 bad response error`},
	{name: "selective: a READ response that does not end", cfg: reorders, script: `
		post READ 100
		send => READ_REQUEST 0 0 va=0 len=100 A
		in READ_RESPONSE_FIRST 0 100 => drop bad response
		poll => 0 bad response error`},
	{name: "selective: a READ response with too few bytes", cfg: reorders, script: `
		post READ 600
		send => READ_REQUEST 0 0 va=0 len=600 A
		in READ_RESPONSE_FIRST 0 255 => drop bad response
		poll => 0 local length error`},
	{name: "selective: one that can't be is judged when all before it is there", cfg: reorders, script: `
		post READ 600
		send => READ_REQUEST 0 0 va=0 len=600 A
		in READ_RESPONSE_LAST 2 87 => drop out of order, rewind implied
		state => RTS
		send => READ_REQUEST 0 0 va=0 len=512 A R
		in READ_RESPONSE_FIRST 0 256 => acked 256/1, place read 0+0 256
		in READ_RESPONSE_LAST 1 256 => acked 256/1, place read 0+256 256
		in READ_RESPONSE_LAST 2 87 => drop bad response
		poll => 0 local length error`},
	{name: "selective: responses that were taken for lost, and come", cfg: reorders, script: `
		post WRITE 1
		post READ 600
		send => WRITE_ONLY 0 1 va=0 len=1 A; READ_REQUEST 1 0 va=0 len=600 A
		inflight => 601
		in READ_RESPONSE_LAST 3 88 => rewind implied, acked 89/2, place read 1+512 88
		inflight => 0
		in READ_RESPONSE_LAST 3 88 => drop ghost
		in READ_RESPONSE_MIDDLE 2 256 => acked 256/1, place read 1+256 256
		inflight => 0
		send => READ_REQUEST 1 0 va=0 len=256 A R
		inflight => 256
		in READ_RESPONSE_ONLY 1 256 => acked 256/1, place read 1+0 256
		inflight => 0
		poll => 0 success; 1 success
		counters => ImpliedNakSeqErr 1, GhostResponses 1, RetransmittedPackets 1, SentPackets 3`},
	{name: "selective: a packet whose payload can't be fetched does not leave, nor what follows it", cfg: reorders, script: `
		post WRITE 1
		post WRITE 1
		send => WRITE_ONLY 0 1 va=0 len=1 A; WRITE_ONLY 1 1 va=0 len=1 A
		failsend 1
		in ACK 0 syn=0x65 msn=1 => rewind sequence
		send => WRITE_ONLY 0 1 va=0 len=1 A R
		in ACK 0 => acked 1/1
		poll => 0 success; 1 local protection error
		state => ERR`},
	{name: "selective: one that failed keeps its repetition back", cfg: reorders, script: `
		post WRITE 1
		post WRITE 1
		post WRITE 1
		send => WRITE_ONLY 0 1 va=0 len=1 A; WRITE_ONLY 1 1 va=0 len=1 A; WRITE_ONLY 2 1 va=0 len=1 A
		failsend 1
		at 66us => rewind timeout
		send => WRITE_ONLY 0 1 va=0 len=1 A R
		in ACK 2 => acked 1/1
		poll => 0 success; 1 local protection error; 2 work request flushed`},
	{name: "selective: nothing goes again in ERR", cfg: reorders, script: `
		post WRITE 600
		send => WRITE_FIRST 0 256 va=0 len=600; WRITE_MIDDLE 1 256; WRITE_LAST 2 88 A
		in ACK 0 syn=0x65 msn=2 => rewind sequence
		error
		send
		poll => 0 work request flushed`},
	{name: "selective: in SQD what is lost goes again", cfg: reorders, script: `
		post WRITE 600
		send => WRITE_FIRST 0 256 va=0 len=600; WRITE_MIDDLE 1 256; WRITE_LAST 2 88 A
		drain
		post WRITE 1
		in ACK 0 syn=0x65 msn=2 => rewind sequence
		send => WRITE_FIRST 0 256 va=0 len=600 A R; WRITE_MIDDLE 1 256 A R
		in ACK 2 => acked 600/3, event send queue drained
		send
		resume
		send => WRITE_ONLY 3 1 va=0 len=1 A`},
	{name: "selective: what is kept lies within Reorder of what is expected", cfg: reorders, script: `
		in WRITE_ONLY 64 1 va=5 len=1 => drop sequence
		out => NAK 0 syn=0x60 msn=64
		in WRITE_ONLY 63 1 va=5 len=1 => check write 5+1 ok, place memory 5 1
		out => NAK 0 syn=0x65 msn=63
		in WRITE_ONLY 63 1 va=5 len=1 => drop duplicate
		out => NAK 0 syn=0x65 msn=63
		counters => OutOfSequence 3, SentNaks 3`},
	{name: "selective: a WRITE that can't be is not kept, and refused in its turn", cfg: reorders, script: `
		in WRITE_ONLY 1 1 va=5 len=2 => drop sequence
		out => NAK 0 syn=0x60 msn=1
		deny
		in WRITE_ONLY 1 1 va=5 len=1 => check write 5+1 denied, drop sequence
		out => NAK 0 syn=0x60 msn=1
		in WRITE_ONLY 2 0 va=0 len=0
		out => NAK 0 syn=0x65 msn=2
		in WRITE_ONLY 0 1 va=5 len=1 => check write 5+1 denied, drop access, event local access violation work queue error
		out => NAK 0 syn=0x62 msn=0`},
	{name: "selective: what was kept and can't be placed is forgotten, and comes again", cfg: reorders, script: `
		in WRITE_FIRST 1 256 va=0 len=600 => check write 0+600 ok, place memory 0 256
		in WRITE_LAST 3 88 A => place memory 512 88
		failaccess
		out => NAK 0 syn=0x60 msn=3
		in WRITE_LAST 3 88 A => place memory 512 88
		in WRITE_MIDDLE 2 256 => place memory 256 256
		failaccess
		out => NAK 0 syn=0x60 msn=2
		in WRITE_ONLY 0 0 va=0 len=0 A
		out => ACK 1 syn=0x1f msn=1
		in WRITE_MIDDLE 2 256 => place memory 256 256
		out => ACK 3 syn=0x1f msn=2
		counters => OutOfSequence 4, RxWriteRequests 2, SentAcks 2, SentNaks 2`},
	{name: "selective: a First that was kept and can't be placed is forgotten, and comes again", cfg: reorders, script: `
		in WRITE_FIRST 4 256 va=1000 len=300 => check write 1000+300 ok, place memory 1000 256
		in WRITE_FIRST 1 256 va=0 len=600 => check write 0+600 ok, place memory 0 256
		failaccess
		out => NAK 0 syn=0x60 msn=1
		in WRITE_MIDDLE 2 256 => drop sequence
		out => NAK 0 syn=0x60 msn=2
		in WRITE_LAST 5 44 => place memory 1256 44
		in WRITE_ONLY 0 0 va=0 len=0 A
		out => NAK 1 syn=0x65 msn=5
		in WRITE_FIRST 1 256 va=0 len=600 => check write 0+600 ok, place memory 0 256
		in WRITE_MIDDLE 2 256 => place memory 256 256
		in WRITE_LAST 3 88 A => place memory 512 88
		out => ACK 5 syn=0x1f msn=3`},
	{name: "selective: repetitions of a READ that has left the resources are not sent", cfg: reorders, script: `
		in READ_REQUEST 0 va=0 len=600 => check read 0+600 ok
		out => READ_RESPONSE_FIRST 0 256 va=0 msn=1; READ_RESPONSE_MIDDLE 1 256 va=256; READ_RESPONSE_LAST 2 88 va=512 msn=1
		in READ_REQUEST 0 va=0 len=600 => drop duplicate, check read 0+600 ok, drop duplicate
		in READ_REQUEST 1 va=256 len=256 => drop duplicate, check read 256+256 ok, drop duplicate
		in READ_REQUEST 3 va=0 len=1 => check read 0+1 ok
		in READ_REQUEST 4 va=0 len=1 => check read 0+1 ok
		in READ_REQUEST 5 va=0 len=1 => check read 0+1 ok
		in READ_REQUEST 6 va=0 len=1 => check read 0+1 ok
		out => READ_RESPONSE_ONLY 3 1 va=0 msn=2; READ_RESPONSE_ONLY 4 1 va=0 msn=3; READ_RESPONSE_ONLY 5 1 va=0 msn=4; READ_RESPONSE_ONLY 6 1 va=0 msn=5`},
	{name: "selective: repetitions of a READ in pieces, in the order of their requests", cfg: reorders, script: `
		in READ_REQUEST 0 va=0 len=1000 => check read 0+1000 ok
		out => READ_RESPONSE_FIRST 0 256 va=0 msn=1; READ_RESPONSE_MIDDLE 1 256 va=256; READ_RESPONSE_MIDDLE 2 256 va=512; READ_RESPONSE_LAST 3 232 va=768 msn=1
		in READ_REQUEST 3 va=768 len=232 => drop duplicate, check read 768+232 ok, drop duplicate
		in READ_REQUEST 0 va=0 len=512 => drop duplicate, check read 0+512 ok, drop duplicate
		out => READ_RESPONSE_ONLY 3 232 va=768 msn=1; READ_RESPONSE_FIRST 0 256 va=0 msn=1; READ_RESPONSE_LAST 1 256 va=256 msn=1`},
	{name: "selective: a duplicate atomic elsewhere is dropped", cfg: reorders, script: `
		in FETCH_ADD 0 va=8 => check atomic 8+8 ok, atomic FETCH_ADD 0 8
		in FETCH_ADD 0 va=8 => drop duplicate
		out
		done 0 5
		out => ATOMIC_ACKNOWLEDGE 0 5 msn=1
		in FETCH_ADD 0 va=16 => drop duplicate
		out
		in FETCH_ADD 0 va=8 => drop duplicate
		out => ATOMIC_ACKNOWLEDGE 0 5 msn=1`},
}
