package nicvalidate

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// inMemory is what a read of memory that is not in the processors' cache takes longer: row PB5 less P3, of another host.
const inMemory = 64 * units.Nanosecond

// kaliaRows are figures of Kalia et al. (ATC 2016) beside those of rateRows, with the set-ups of rdma_bench.
func kaliaRows() []Measurement {
	const cx3, cib = "cx3", "connectib"
	// allSignaled is rw-allsig, as in K15.
	allSignaled := func(op ib.WROpcode, threads, window int) *flood {
		return &flood{op: op, payload: 8, inline: op == ib.WRRDMAWrite, queues: threads, threaded: true, window: window, batch: 1, signal: window}
	}
	windows := func(preset string, op ib.WROpcode, threads int, reads bool) func(string) (float64, error) {
		return func(at string) (float64, error) {
			var n int
			if _, err := fmt.Sscanf(at, "%d outstanding", &n); err != nil {
				return 0, noPoint(at)
			}
			f := allSignaled(op, threads, n)
			f.reads = reads
			return f.run(preset)
		}
	}
	inbound := func(preset string, service ib.QPType, op ib.WROpcode) func(string) (float64, error) {
		return func(at string) (float64, error) {
			n, err := size(at)
			if err != nil {
				return 0, err
			}
			return (&flood{service: service, op: op, payload: n, inline: op == ib.WRRDMAWrite && n <= inlineLimit, inbound: true, queues: 32, window: 64, batch: 4, signal: 32}).run(preset)
		}
	}
	atomics := func(preset string, targets int) (float64, error) {
		return (&flood{op: ib.WRAtomicFetchAndAdd, payload: 8, inbound: true, queues: 28, window: 16, batch: 4, targets: targets, stride: 8}).run(preset)
	}
	const like15 = "as K15"
	return []Measurement{
		{Row: "K7", Preset: cx3, How: "as K5 and K6", Figure: func(at string) (float64, error) {
			f := outboundUD(60, 28, true)
			switch at {
			case "send, payload":
			case "send, header only":
				f.payload = 0
			case "receive, payload", "receive, header only":
				f.inbound, f.window = true, 512
				if at != "receive, payload" {
					f.payload = 0
				}
			default:
				return 0, noPoint(at)
			}
			return f.run(cx3)
		}},
		{Row: "K9", Preset: cx3, How: "as K8", Figure: inbound(cx3, ib.RC, ib.WRRDMARead)},
		{Row: "K9w", Preset: cx3, How: "as K8, WRITEs over UC, inline up to 220 B", Figure: inbound(cx3, ib.UC, ib.WRRDMAWrite)},
		{Row: "K9b", Preset: cib, How: "as K9w", Figure: inbound(cib, ib.UC, ib.WRRDMAWrite)},
		{Row: "K13", Preset: cib, How: like15, Figure: windows(cib, ib.WRRDMARead, 14, false)},
		{Row: "K13p", Preset: cib, How: like15 + "; all read requests of the NIC", Figure: windows(cib, ib.WRRDMARead, 14, true)},
		{Row: "K14", Preset: cx3, How: like15 + ", 8 threads", Figure: windows(cx3, ib.WRRDMARead, 8, false)},
		{Row: "K14p", Preset: cx3, How: "as K13p, 8 threads", Figure: windows(cx3, ib.WRRDMARead, 8, true)},
		{Row: "K15b", Preset: cx3, How: like15 + ", 8 threads", Figure: windows(cx3, ib.WRRDMAWrite, 8, false)},
		{Row: "K15p", Preset: cx3, How: "as K13p, 8 threads", Figure: windows(cx3, ib.WRRDMAWrite, 8, true)},
		{Row: "K16b", Preset: cib, How: "as K16, addresses at random", Figure: func(at string) (float64, error) {
			var n int
			if _, err := fmt.Sscanf(at, "%d addresses", &n); err != nil {
				return 0, noPoint(at)
			}
			return atomics(cib, n)
		}},
		{Row: "K17", Preset: cx3, How: "as K16b, of 4096 addresses", Figure: func(at string) (float64, error) {
			if at != "any addresses" {
				return 0, noPoint(at)
			}
			return atomics(cx3, 4096)
		}},
		{Row: "K18", How: "as rdma_bench's atomics-sequencer emulates DrTM: READs of 64 B and pairs of fetch-and-adds, at random multiples of 64 B in memory that is not in the processors' cache; otherwise as K16", Figure: func(at string) (float64, error) {
			var nic string
			var updates int
			if _, err := fmt.Sscanf(at, "%s %d %%", &nic, &updates); err != nil {
				return 0, noPoint(at)
			}
			return drtm(nic, updates)
		}},
	}
}

// drtm returns the operations a microsecond of which a share is pairs of atomics.
func drtm(nic string, updates int) (float64, error) {
	cfg, err := preset(nic)
	if err != nil {
		return 0, err
	}
	cfg.PCIe.ReadLatency += inMemory
	f := &flood{op: ib.WRRDMARead, payload: 64, inbound: true, queues: 28, window: 16, batch: 4, targets: bufferBytes / 64, stride: 64, updates: updates}
	rate, err := f.runOn(cfg, ports(nic))
	return rate / (1 + float64(updates)/100), err
}
