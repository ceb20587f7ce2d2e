package simverbs

import (
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/roce/rc"
)

// counted is what queue pairs count.
type counted struct {
	rc.Counters
	restarts              nicmodel.Restarts
	cnpsSent, cnpsHandled uint64
}

func (c *counted) add(nic *nicmodel.NIC, num uint32) {
	t, r := nic.Counters(num), nic.Restarts(num)
	sent, handled := nic.Notifications(num)
	c.Add(&t)
	c.restarts.Used += r.Used
	c.restarts.CNPs += r.CNPs
	c.restarts.Trans += r.Trans
	c.cnpsSent += sent
	c.cnpsHandled += handled
}

// Counters returns what happened to the device's packets, by name: those of the kernel's hw_counters where it has
// one for it. They have queue pairs that are gone, too. As all of the device's methods it is for the applications of
// verbs.Run, or for whoever drives the simulation outside of it.
func (d *Device) Counters() map[string]uint64 {
	c, s := d.past, d.nic.Stats()
	for num := range d.qps { // sums, in whatever order
		c.add(d.nic, num)
	}
	return map[string]uint64{
		"rcvd_pkts": s.RxPackets, "sent_pkts": s.TxPackets, "rx_no_qp": s.NoQP, "qkey_viol_cntr": s.BadQKey,
		"np_cnp_sent": c.cnpsSent, "rp_cnp_handled": c.cnpsHandled,
		"packet_seq_err": c.PacketSeqErr, "implied_nak_seq_err": c.ImpliedNakSeqErr,
		"local_ack_timeout_err": c.LocalAckTimeoutErr, "rnr_nak_retry_err": c.RNRNakRetryErr,
		"roce_adp_retrans": c.RoceAdpRetrans, "roce_adp_retrans_to": c.RoceAdpRetransTO,
		"roce_slow_restart": c.restarts.Used, "roce_slow_restart_cnps": c.restarts.CNPs, "roce_slow_restart_trans": c.restarts.Trans,
		"out_of_sequence": c.OutOfSequence, "duplicate_request": c.DuplicateRequest, "out_of_buffer": c.OutOfBuffer,
		"retransmitted_pkts": c.RetransmittedPackets, "rx_write_requests": c.RxWriteRequests,
		"rx_read_requests": c.RxReadRequests, "rx_atomic_requests": c.RxAtomicRequests,
		"req_remote_invalid_request": c.ReqRemoteInvalid, "req_remote_access_errors": c.ReqRemoteAccessErrors,
		"resp_remote_access_errors": c.RespRemoteAccessErrors, "resp_local_length_error": c.RespLocalLengthError,
		"retry_exceeded_err": c.RetryExceeded, "rnr_nak_retry_exceeded_err": c.RNRRetryExceeded,
	}
}
