package cc

import "github.com/sluice-rdma/sluice/units"

// Fixed is an Engine that keeps to one Control, whatever happens. It may serve
// any number of flows.
type Fixed struct{ Keep Control }

// OnAck changes nothing.
func (f Fixed) OnAck(*Ack) Control { return f.Keep }

// OnLoss changes nothing.
func (f Fixed) OnLoss(units.Time) Control { return f.Keep }

// OnTimeout changes nothing.
func (f Fixed) OnTimeout(units.Time) Control { return f.Keep }

// OnCNP changes nothing.
func (f Fixed) OnCNP(units.Time) Control { return f.Keep }

// Control returns Keep.
func (f Fixed) Control() Control { return f.Keep }
