package endpoint

import "github.com/sluice-rdma/sluice/roce/rc"

// Counters count what happened to the packets of a device. What its connections
// count is in rc.Counters.
type Counters struct {
	RxPackets, RxBytes uint64 // from the Base Transport Header to the ICRC
	TxPackets, TxBytes uint64

	// Packets that were dropped, by the first reason found.
	Malformed       uint64 // too short for their headers, reserved opcode or version, wrong padding
	BadPKey         uint64
	NoQP            uint64 // no such queue pair, or not in a state to receive
	WrongService    uint64 // opcode of another transport service than the queue pair's
	WrongSource     uint64 // not from, or not to, the address that the queue pair is connected to
	BadQKey         uint64 // qkey_viol_cntr
	UDNoReceive     uint64 // datagrams without a receive
	UDTooLong       uint64 // datagrams longer than their receive, or than the port's MTU
	MADsDropped     uint64 // to QP 1 with nobody listening or with a wrong size
	DroppedByQP     uint64 // dropped by a connection for one of rc.Drop's reasons
	CNPsSent        uint64 // np_cnp_sent
	CNPsHandled     uint64 // rp_cnp_handled
	CNPsIgnored     uint64 // rp_cnp_ignored: no such connection, nothing outstanding, or too soon
	ECNMarked       uint64 // np_ecn_marked_roce_packets
	INTUnread       uint64 // records of the path with nothing to compare them with
	TimersEarly     uint64 // deadlines that had moved on
	LocalFaults     uint64 // requests or receives whose memory the keys did not allow
	RemoteKeyFaults uint64 // R_Key checks that failed
}

// Transport returns the sums of the counters of all connections, including
// destroyed ones.
func (e *Endpoint) Transport() rc.Counters {
	sum := e.past
	for _, s := range e.qps.slots {
		if s.v != nil && s.v.rc != nil {
			sum.Add(s.v.rc.Counters())
		}
	}
	return sum
}
