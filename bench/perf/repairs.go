package perf

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/verbs"
)

// Repairs are what the transport repaired, as far as the device counts it: for this
// run's queue pairs or, on a device of the kernel, for all that used its port
// meanwhile (hw_counters).
type Repairs struct {
	Retransmitted  stats.Float `json:"retransmitted_packets"`
	SequenceErrors stats.Float `json:"sequence_errors"`
	Timeouts       stats.Float `json:"timeouts"`
	RNRNAKs        stats.Float `json:"rnr_naks"`
}

// repaired is counters, and which of them there are.
type repaired struct {
	verbs.Repairs
	has [repairKinds]bool
}

const repairKinds = 4

// each returns the counters in the order of has.
func (r *repaired) each() [repairKinds]*uint64 {
	return [...]*uint64{&r.Retransmitted, &r.SequenceErrors, &r.Timeouts, &r.RNRNAKs}
}

func (r *repaired) add(o *repaired) {
	from := o.each()
	for i, to := range r.each() {
		*to += *from[i]
	}
	r.has = o.has
}

// since is what was counted since a reading before.
func (r *repaired) since(before *repaired) repaired {
	d := *r
	from := before.each()
	for i, to := range d.each() {
		*to -= min(*from[i], *to)
		d.has[i] = d.has[i] && before.has[i]
	}
	return d
}

func (r *repaired) report() *Repairs {
	u := stats.Unmeasured
	out := &Repairs{u, u, u, u}
	to := [...]*stats.Float{&out.Retransmitted, &out.SequenceErrors, &out.Timeouts, &out.RNRNAKs}
	none := true
	for i, from := range r.each() {
		if r.has[i] {
			none = false
			*to[i] = stats.Float(*from)
		}
	}
	if none {
		return nil
	}
	return out
}

// repairs reads the counters, of former queue pairs too.
func (e *end) repairs() repaired {
	return countRepairs(e.renewal.repaired, e.dev, e.cfg.Port, e.qps...)
}

// countRepairs adds what queue pairs of a device have counted to r; where the port counts, it returns
// that.
func countRepairs(r repaired, dev verbs.Device, port int, qps ...verbs.QP) repaired {
	for _, qp := range qps {
		counting := counts(qp)
		if counting == nil {
			return kernelRepairs(os.DirFS("/sys/class/infiniband"), dev, port)
		}
		r.has = [...]bool{true, true, true, true}
		c := counting.Repairs()
		c.Timeouts += c.AdpRetrans
		r.add(&repaired{c, r.has})
	}
	return r
}

// counts returns the queue pair that counts, below its wrappers; nil if none does.
func counts(qp verbs.QP) verbs.RepairsQP {
	for {
		if c, ok := qp.(verbs.RepairsQP); ok {
			return c
		}
		u, ok := qp.(interface{ Unwrap() verbs.QP })
		if !ok {
			return nil
		}
		qp = u.Unwrap()
	}
}

// kernelCounters are the names in hw_counters, of mlx5 and others, and of rxe.
var kernelCounters = [repairKinds][]string{
	1: {"packet_seq_err", "implied_nak_seq_err", "rcvd_seq_err"},
	2: {"local_ack_timeout_err", "roce_adp_retrans"},
	3: {"rnr_nak_retry_err", "rcvd_rnr_err"},
}

// kernelRepairs reads the counters of a device of libibverbs' at the kernel.
func kernelRepairs(class fs.FS, dev verbs.Device, port int) (r repaired) {
	name, ok := strings.CutPrefix(verbs.Bottom(dev).Name(), "ibv:")
	if !ok {
		return r
	}
	name, _, _ = strings.Cut(name, "?")
	to := r.each()
	for i, files := range kernelCounters {
		for _, f := range files {
			text, err := fs.ReadFile(class, path.Join(name, "ports", strconv.Itoa(port), "hw_counters", f))
			if err != nil {
				continue
			}
			if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
				*to[i] += n
				r.has[i] = true
			}
		}
	}
	return r
}
