package scenario

import (
	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/units"
)

// Verbs sets how the applications on the hosts use their queue pairs, by the names of
// perftest's options. All hosts and workloads are alike. Reduced NICs have none of it.
type Verbs struct {
	// Requests that are posted together, with one doorbell. Flows post when that
	// number fits, or the rest of them; workloads that keep connections post what
	// there is, up to that number.
	PostList int `yaml:"post_list" eg:"16" range:"[1,)" of:"requests"`
	// Writes and Sends of up to this size travel inside their requests; at most the
	// NIC's `max_inline`. 0 is none.
	InlineSize units.Bytes `yaml:"inline_size" eg:"64B" range:"[0,)"`
	// Messages of a flow for each completion; its last message always asks for one.
	// In workloads that keep connections each message does.
	CQMod int `yaml:"cq_mod" eg:"16" range:"[1,)" of:"messages"`
	// Whether applications sleep until an event says that there are completions, and do
	// not poll all the time. Where the engine runs in the host, the shim polls.
	Events bool `yaml:"events" eg:"true"`
	// With `events`, moderation (ibv_modify_cq): the completions after which an event is
	// raised, if `cq_period` has not passed since the first of them; 0 is no count.
	CQCount int `yaml:"cq_count" eg:"16" range:"[0,65535]"`
	// The time, in whole microseconds; 0 is none.
	CQPeriod units.Time `yaml:"cq_period" eg:"8us" range:"[0,65535us]"`
	// Memory of each queue pair at either end, in which its messages lie one behind the
	// other, and over again. 0 has all messages of a host in one place.
	Buffer units.Bytes `yaml:"buffer" eg:"64KiB" range:"[0,1GiB]"`
	// Whether each queue pair has memory regions of its own, as large as `buffer` or a
	// message, and not a share of one of 2 GiB for the whole host.
	MRPerQP bool `yaml:"mr_per_qp" eg:"true"`
	// Whether memory lies in huge pages; `nic.with.translation` has their size.
	HugePages bool `yaml:"use_hugepages" eg:"false"`
	// Whether memory is that of the device of `nic.with.pcie.peer`, such as a GPU.
	CUDA bool `yaml:"use_cuda" eg:"false"`
}

func (sys *System) checkVerbs(d *tree.Document, at func(string) string) {
	v := &sys.Verbs
	if sys.Reduced() {
		for _, key := range ofVerbs.Changed(v, &Default().Verbs) {
			d.Fail(at("verbs."+key), "reduced NICs have no queues in the host's memory: leave it out, or set nic.model to staged")
		}
		return
	}
	failSettings(d, at, "verbs", ofVerbs.CheckAll(v))
	sys.checkQueues(d, at)
	if sys.nic != nil {
		sys.checkAbilities(d, at)
	}
	sys.checkEvents(d, at)
}

// checkQueues checks requests and completions against the send queue.
func (sys *System) checkQueues(d *tree.Document, at func(string) string) {
	v, depth := &sys.Verbs, sys.NIC.SendDepth
	if v.PostList > depth {
		d.Fail(at("verbs.post_list"), "is %d: choose 1 to nic.send_depth, %d", v.PostList, depth)
	}
	switch least := v.PostList + v.CQMod - 1; {
	case v.CQMod > depth:
		d.Fail(at("verbs.cq_mod"), "is %d: choose 1 to nic.send_depth, %d", v.CQMod, depth)
	case least > depth && v.PostList <= depth:
		d.Fail(at("verbs.cq_mod"), "is %d: with post_list %d a queue of %d requests would fill before one completes; raise nic.send_depth to %d", v.CQMod, v.PostList, depth, least)
	}
}

// checkAbilities checks what the NIC has to be able to.
func (sys *System) checkAbilities(d *tree.Document, at func(string) string) {
	v, c := &sys.Verbs, sys.nic
	if most := units.Bytes(c.MaxInline); v.InlineSize > most {
		d.Fail(at("verbs.inline_size"), "is %v: choose 0 to the NIC's max_inline, %v", v.InlineSize, most)
	}
	if v.CUDA && c.PCIe.Peer.Rate == 0 {
		d.Fail(at("verbs.use_cuda"), "requires a device: give nic.with.pcie.peer, such as {rate: 227Gbps, read_latency: 700ns, write_latency: 300ns}")
	}
}

// checkEvents checks completion events and their moderation.
func (sys *System) checkEvents(d *tree.Document, at func(string) string) {
	v := &sys.Verbs
	if v.Events && !sys.Offload() {
		d.Fail(at("verbs.events"), "the shim polls, to pace: leave it out, or set nic.mode to offload")
	}
	if !v.Events && (v.CQCount != 0 || v.CQPeriod != 0) {
		key := "verbs.cq_count"
		if v.CQCount == 0 {
			key = "verbs.cq_period"
		}
		d.Fail(at(key), "without events there is nothing to moderate: set verbs.events to true")
	}
	if v.CQPeriod%units.Microsecond != 0 {
		d.Fail(at("verbs.cq_period"), "is %v: choose whole microseconds", v.CQPeriod)
	}
	if v.Events && v.CQCount > 1 && v.CQPeriod == 0 {
		d.Fail(at("verbs.cq_count"), "is %d: fewer completions than that would never be told; give verbs.cq_period too", v.CQCount)
	}
}
