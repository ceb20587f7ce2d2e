package paced

import "github.com/sluice-rdma/sluice/units"

// Stats counts what a Shim did.
type Stats struct {
	Messages     uint64      // requests of the application that completed, however
	Failed       uint64      // those of them that did not succeed
	Segments     uint64      // taken by the provider
	SegmentBytes units.Bytes // their payload
	Posts        uint64      // PostSend calls to the provider

	Samples  uint64 // RTT samples of segments that succeeded
	NICTime  uint64 // of them, completion times by the NIC's timestamp
	PollTime uint64 // by the time of polling: no timestamp, or no trusted calibration
	SentTime uint64 // reckoned from when the segment left the host, not from posting
	// Clamped samples were shorter than their own serialisation: a wrong line
	// rate, or a calibration error. They count as an RTT of zero.
	Clamped uint64
	// Bypassed counts samples that the engine was spared, by Config.Bypass.
	Bypassed uint64
	// Turnarounds counts the Samples without the time that the peer took to answer,
	// which the peer reported. Coalesced counts those without a round trip: one
	// acknowledgement was for later segments too.
	Turnarounds, Coalesced uint64
	CNPs                   uint64 // congestion notifications passed to engines

	// Cuts counts how often engines lowered their rate or window.
	Cuts Cuts
	// Held is summed over queue pairs, including destroyed ones.
	Held Held

	ProviderFull   uint64 // segments that the provider had no room for, and that were posted again
	Stray          uint64 // provider completions of no segment that is outstanding
	NICRateRefused uint64 // queue pairs whose NIC took Config.NICRate neither as a limit nor as a static rate
	ClockErrors    uint64 // readings of the NIC's clock that failed
}

// add adds what a queue pair counts of itself.
func (s *Stats) add(t *tally, h Held) {
	s.Cuts.add(&t.cuts)
	s.Held.Add(h)
}

// merge adds what another shard counts.
func (s *Stats) merge(o *Stats) {
	s.Messages += o.Messages
	s.Failed += o.Failed
	s.Segments += o.Segments
	s.SegmentBytes += o.SegmentBytes
	s.Posts += o.Posts
	s.Samples += o.Samples
	s.NICTime += o.NICTime
	s.PollTime += o.PollTime
	s.SentTime += o.SentTime
	s.Clamped += o.Clamped
	s.Bypassed += o.Bypassed
	s.Turnarounds += o.Turnarounds
	s.Coalesced += o.Coalesced
	s.CNPs += o.CNPs
	s.Cuts.add(&o.Cuts)
	s.Held.Add(o.Held)
	s.ProviderFull += o.ProviderFull
	s.Stray += o.Stray
	s.NICRateRefused += o.NICRateRefused
	s.ClockErrors += o.ClockErrors
}
