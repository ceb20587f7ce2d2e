package stage

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/sluice-rdma/sluice/p4"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// Port describes a switch's port, for the programs that have tables of ports.
type Port struct {
	Number uint16
	Rate   units.Rate
	// Notice says when the port is in an incast, if the switch gives notice of it.
	Notice *fabric.PortNotice
}

// Tables that a program may have, with the egress port as their one exact key, and
// that Describe fills.
const (
	rateTable   = "port_rate" // set_rate(code of telemetry.INTFormat)
	noticeTable = "ein_port"  // set_port(threshold in Mbps, if it asks for three; high water in telemetry.CellBytes; longest gap in ticks)
	scaleTable  = "scale"     // rate_100g() and so on
)

// Describe configures the program's port tables with the switch's ports: a
// controller's work. tick is that of the switch's clock. Describe does nothing for a
// program without these tables.
func (s *Stage) Describe(ports []Port, tick units.Time) error {
	for _, t := range s.pipeline.Program().Tables() {
		name := t.Name[strings.LastIndexByte(t.Name, '.')+1:]
		for _, p := range ports {
			var a p4.Action
			switch {
			case name == rateTable:
				code, ok := s.cfg.INT.RateCode(p.Rate)
				if !ok {
					return fmt.Errorf("a record of form %v has no code for a port of %v: use links of a rate that Ethernet has", s.cfg.INT.Form, p.Rate)
				}
				a = action("set_rate", int64(code))
			case name == noticeTable && p.Notice != nil:
				n := p.Notice
				args := []int64{int64(n.HighWater / telemetry.CellBytes), int64(n.MaxGap / tick)}
				if takes(t, "set_port") == 3 {
					args = append([]int64{int64(n.Threshold / units.Mbps)}, args...)
				}
				a = action("set_port", args...)
			case name == scaleTable && p.Notice != nil:
				a = action("rate_" + strings.ToLower(strings.TrimSuffix(p.Rate.String(), "bps")))
				if takes(t, a.Name) < 0 {
					continue // the program's own default applies
				}
			default:
				continue
			}
			if err := s.pipeline.AddEntry(t.Name, p4.Entry{Keys: []p4.Match{{Value: big.NewInt(int64(p.Number))}}, Action: a}); err != nil {
				return err
			}
		}
	}
	return nil
}

func action(name string, args ...int64) p4.Action {
	a := p4.Action{Name: name}
	for _, x := range args {
		a.Args = append(a.Args, big.NewInt(x))
	}
	return a
}

// takes is the number of arguments an action of a table has, or -1 if the table has no such
// action.
func takes(t p4.TableInfo, name string) int {
	for _, a := range t.Actions {
		if a.Name == name || strings.HasSuffix(a.Name, "."+name) {
			return len(a.Params)
		}
	}
	return -1
}
