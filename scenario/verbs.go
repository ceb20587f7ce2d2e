package scenario

import (
	"github.com/sluice-rdma/sluice/units"
)

// Verbs is how the applications on the hosts use their queue pairs: what perftest has
// options for, by the names of those. All hosts and workloads are alike. Reduced NICs
// have none of it.
type Verbs struct {
	// Requests that are posted together, with one doorbell. Flows post when so many
	// fit, or the rest of them; workloads that keep connections post what there is,
	// up to so many.
	PostList int `yaml:"post_list" eg:"16"`
	// Writes and Sends of up to this size travel inside their requests; at most the
	// NIC's `max_inline`. 0 is none.
	InlineSize units.Bytes `yaml:"inline_size" eg:"64B"`
	// One of so many messages of a flow asks for a completion, and its last one does.
	// In workloads that keep connections each does.
	CQMod int `yaml:"cq_mod" eg:"16"`
	// Memory of each queue pair at either end, in which its messages lie one behind the
	// other, and over again. 0 has all messages of a host in one place.
	Buffer units.Bytes `yaml:"buffer" eg:"64KiB"`
	// Whether each queue pair has memory regions of its own, as large as `buffer` or a
	// message, and not a share of one of 2 GiB for the whole host.
	MRPerQP bool `yaml:"mr_per_qp" eg:"true"`
	// Whether memory lies in huge pages; `nic.with.translation` has their size.
	HugePages bool `yaml:"use_hugepages" eg:"false"`
}

func (sys *System) checkVerbs(d *decoder, at func(string) string) {
	v := &sys.Verbs
	if sys.Reduced() {
		for _, x := range []struct {
			key string
			set bool
		}{{"post_list", v.PostList != 1}, {"inline_size", v.InlineSize != 0}, {"cq_mod", v.CQMod != 1}, {"buffer", v.Buffer != 0}, {"mr_per_qp", v.MRPerQP}, {"use_hugepages", !v.HugePages}} {
			if x.set {
				d.fail(at("verbs."+x.key), "reduced NICs have no queues in the host's memory: leave it out, or set nic.model to staged")
			}
		}
		return
	}
	depth := sys.NIC.SendDepth
	if v.PostList < 1 || v.PostList > depth {
		d.fail(at("verbs.post_list"), "is %d: choose 1 to nic.send_depth, %d", v.PostList, depth)
	}
	if v.CQMod < 1 || v.CQMod > depth {
		d.fail(at("verbs.cq_mod"), "is %d: choose 1 to nic.send_depth, %d", v.CQMod, depth)
	} else if v.PostList+v.CQMod-1 > depth && v.PostList <= depth {
		d.fail(at("verbs.cq_mod"), "is %d: with post_list %d a queue of %d requests would fill before one completes; raise nic.send_depth to %d", v.CQMod, v.PostList, depth, v.PostList+v.CQMod-1)
	}
	if c, err := sys.NICConfig(); err == nil && (v.InlineSize < 0 || v.InlineSize > units.Bytes(c.MaxInline)) {
		d.fail(at("verbs.inline_size"), "is %v: choose 0 to the NIC's max_inline, %v", v.InlineSize, units.Bytes(c.MaxInline))
	}
	if v.Buffer < 0 || v.Buffer > units.GiB {
		d.fail(at("verbs.buffer"), "is %v: choose a size of up to 1GiB, or 0", v.Buffer)
	}
}
