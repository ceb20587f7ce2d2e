package results

import (
	"fmt"
	"strings"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
)

// NICUse breaks down a NIC's time from the end of the warm-up on.
type NICUse struct {
	NIC      string `json:"nic"`              // name of its host
	Requests uint64 `json:"requests"`         // that its transport was given
	Packets  uint64 `json:"packets_received"` // acknowledgements too
	// Bottleneck says in a sentence what limits the NIC, and by what one sees it.
	Bottleneck string `json:"bottleneck"`
	// BytesEach and CyclesEach say what a request, or a received packet where there are no
	// requests, takes of PCIe by purpose and of each stage; empty where there are neither.
	BytesEach  string     `json:"pcie_each"`
	CyclesEach string     `json:"cycles_each"`
	Stages     []NICStage `json:"stages"`
	PCIe       []NICPCIe  `json:"pcie"`
	Queues     []NICQueue `json:"queues"`
	// Buffer counts what the receive buffer could not take at once; nil if nothing.
	Buffer *NICBuffer `json:"receive_buffer,omitempty"`
	// EngineEvents are those of engines that run on processors of the NIC; nil where none do.
	EngineEvents *NICEngineEvents `json:"engine_events,omitempty"`
	Waits        []NICWait        `json:"waits"`
	Caches       []NICCache       `json:"caches,omitempty"`
	// Operations are single requests whose latencies represent all of the host's
	// requests.
	Operations []NICOperation `json:"operations,omitempty"`
}

// NICStage breaks down the cycles of a stage: Busy, Idle and the sum of Stalled are
// Elapsed. The cycle of the mac, of PCIe and of the atomics unit is a picosecond.
type NICStage struct {
	Stage    string           `json:"stage"`
	ClockHz  int64            `json:"clock_hz"`
	Parallel int              `json:"parallel"` // pieces of work at once; the cycles are those of all
	Served   uint64           `json:"served"`   // pieces of work
	Elapsed  int64            `json:"elapsed_cycles"`
	Busy     int64            `json:"busy_cycles"`
	Idle     int64            `json:"idle_cycles"`
	Stalled  map[string]int64 `json:"stalled_cycles,omitempty"` // by what was waited for
}

// Directions of PCIe.
const (
	ToHost   = "to_host"
	FromHost = "from_host"
)

// NICPCIe counts what crossed the PCIe link in one direction, TLP headers included.
type NICPCIe struct {
	Direction string             `json:"direction"` // ToHost or FromHost
	Busy      stats.Float        `json:"busy"`      // share of the time that the link was, 0 to 1
	Bytes     int64              `json:"bytes"`
	ByPurpose map[string]int64   `json:"bytes_by_purpose"` // sums up to Bytes
	TLPs      map[string]NICTLPs `json:"tlps"`             // by type: MRd, MWr, CplD; their bytes sum up to Bytes
	// PerRequest is Bytes over the requests, of a NIC that has any.
	PerRequest stats.Float `json:"bytes_per_request"`
}

// NICTLPs counts what crossed PCIe in packets of one type.
type NICTLPs struct {
	Packets uint64 `json:"packets"`
	Bytes   int64  `json:"bytes"` // headers included
}

// NICQueue is a queue inside the NIC; see nicmodel.NIC.Queues.
type NICQueue struct {
	Queue string      `json:"queue"`
	Came  uint64      `json:"came"`
	Mean  stats.Float `json:"mean"` // how many were in it, over time
	Most  int         `json:"most"` // in the whole run
	// WaitUs is the mean time in it, by Little's law.
	WaitUs stats.Float `json:"wait_us"`
}

// NICBuffer is the receive buffer of a NIC that was behind.
type NICBuffer struct {
	MostBytes int64  `json:"most_bytes"` // that it held in the whole run
	Drops     uint64 `json:"drops"`
	Marks     uint64 `json:"marks"`
	Pauses    uint64 `json:"pauses"` // times that it paused the network
}

// text describes what the buffer did.
func (b *NICBuffer) text() string {
	var did []string
	for _, x := range []struct {
		n    uint64
		what string
	}{{b.Drops, "dropped %d packets"}, {b.Marks, "marked %d"}, {b.Pauses, "paused the network %d times"}} {
		if x.n > 0 {
			did = append(did, fmt.Sprintf(x.what, x.n))
		}
	}
	return fmt.Sprintf("the receive buffer, %d bytes full at most, %s", b.MostBytes, strings.Join(did, ", "))
}

// NICEngineEvents counts what the processors of a NIC's engines were given.
type NICEngineEvents struct {
	Handled uint64 `json:"handled"`
	Merged  uint64 `json:"merged"`  // acknowledgements that found the queue full, and count with the next
	Dropped uint64 `json:"dropped"` // notifications that did
}

// text describes what they did.
func (e *NICEngineEvents) text() string {
	return fmt.Sprintf("the engine's processors handled %d events; the queue before them was full for %d that were merged and %d that were dropped", e.Handled, e.Merged, e.Dropped)
}

// NICWait is a wait of pieces of work during which no stage waited; see
// nicmodel.NIC.Waits.
type NICWait struct {
	Where string      `json:"where"`
	For   string      `json:"for"`
	Mean  stats.Float `json:"mean"` // how many waited, over time
	// Taken says that what was waited for was in use by others.
	Taken bool `json:"taken,omitempty"`
}

// NICCache counts the lookups of a cache of the NIC.
type NICCache struct {
	Cache  string `json:"cache"`
	Hits   uint64 `json:"hits"`
	Misses uint64 `json:"misses"`
}
