package exchange

import (
	"encoding/binary"
	"math"
)

// Report is an end's measurement. The units of Peak and Average are the ones that its
// flags chose, MiB/s or, with --report_gbits, Gbit/s; the message does not say
// which. An end that measured nothing, the server of a one-way test, sends whatever
// was in its memory.
type Report struct {
	Size        uint64 // bytes of a message
	Iterations  uint64
	Peak        float64
	Average     float64
	MessageRate float64 // millions a second
}

// SwapReports swaps reports.
func (c *Conn) SwapReports(local Report) (Report, error) {
	words := [...]uint64{
		local.Size, local.Iterations,
		math.Float64bits(local.Peak), math.Float64bits(local.Average), math.Float64bits(local.MessageRate),
	}
	for i := range words {
		err := c.swap("report", binary.BigEndian.AppendUint64(nil, words[i]), func() error {
			var b [8]byte
			err := c.read("report", b[:])
			words[i] = binary.BigEndian.Uint64(b[:])
			return err
		})
		if err != nil {
			return Report{}, err
		}
	}
	return Report{
		Size: words[0], Iterations: words[1],
		Peak: math.Float64frombits(words[2]), Average: math.Float64frombits(words[3]), MessageRate: math.Float64frombits(words[4]),
	}, nil
}
