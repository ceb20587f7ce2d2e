package softroce

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

// collect is what a device's packets collect on their way, by its options:
//
//	telemetry  ein, csig-wide, csig-compact, poseidon or int
//	tagtype    EtherType of a tag
//	base, step of csig-wide
//	intport    UDP port of packets with INT
//	intrates   CODE:RATE,... in addition to the rates that have codes
type collect struct {
	ein   bool
	tags  bool
	int   bool
	delay telemetry.DelayFormat
	hops  telemetry.INTFormat

	kind  string // telemetry=
	set   []string
	typed uint16
	base  units.Time
	step  units.Time
}

const (
	telemetryEIN = "ein"
	telemetryINT = "int"
)

// option takes an option, and reports whether it is one of telemetry.
func (c *collect) option(key, text string) (known bool, err error) {
	switch key {
	case "telemetry":
		c.kind = text
		return true, nil
	case "tagtype", "intport":
		var n uint64
		if n, err = strconv.ParseUint(text, 0, 16); err != nil {
			err = fmt.Errorf("expected 16 bits, such as 0x88b5, got %q", text)
		}
		if key == "intport" {
			c.hops.Port = uint16(n)
		} else {
			c.typed = uint16(n)
		}
	case "base":
		err = c.base.UnmarshalText([]byte(text))
	case "step":
		err = c.step.UnmarshalText([]byte(text))
	case "intrates":
		for field := range strings.SplitSeq(text, ",") {
			code, rate, ok := strings.Cut(field, ":")
			n, bad := strconv.ParseUint(code, 10, 8)
			if !ok || bad != nil || n >= telemetry.NoRate {
				return true, fmt.Errorf("%q, expected CODE:RATE with a code from 0 to %d, such as 13:200Mbps", field, telemetry.NoRate-1)
			}
			if err := c.hops.Rates[n].UnmarshalText([]byte(rate)); err != nil {
				return true, err
			}
		}
	default:
		return false, nil
	}
	c.set = append(c.set, key)
	return true, err
}

// finish makes the formats of what was said, or an error.
func (c *collect) finish(packets bool) error {
	said := *c
	*c = collect{}
	for _, key := range said.set {
		needs := "csig-wide"
		switch {
		case strings.HasPrefix(key, "int"):
			needs = telemetryINT
		case key == "tagtype":
			needs = "csig-wide, csig-compact or poseidon"
		}
		if !strings.Contains(needs, said.kind) || said.kind == "" {
			return fmt.Errorf("option %s requires telemetry=%s", key, needs)
		}
	}
	switch said.kind {
	case "":
		return nil
	case telemetryEIN:
		c.ein = true
		return nil
	case telemetryINT:
		c.int = true
		c.hops = telemetry.DefaultINTFormat()
		if said.hops.Port != 0 {
			c.hops.Port = said.hops.Port
		}
		for code, r := range said.hops.Rates {
			if r > 0 {
				c.hops.Rates[code] = r
			}
		}
		if err := c.hops.Validate(); err != nil {
			return err
		}
	default:
		var form telemetry.DelayForm
		if form.UnmarshalText([]byte(said.kind)) != nil {
			return fmt.Errorf("option telemetry: unknown form %q, expected ein, csig-wide, csig-compact, poseidon or int", said.kind)
		}
		c.tags, c.delay = true, telemetry.DefaultDelayFormat(form)
		if said.typed != 0 {
			c.delay.EtherType = said.typed
		}
		if said.step != 0 {
			c.delay.Step = said.step
		}
		if c.delay.Base = said.base; form != telemetry.Wide {
			c.delay.Base = 0
		}
		if err := c.delay.Validate(); err != nil {
			return err
		}
	}
	if !packets {
		return errors.New("option telemetry: tags and INT require mode=packet: a UDP socket shows neither")
	}
	return nil
}

// core is what the endpoint is told.
func (c *collect) core() (out endpoint.Collect) {
	if c.tags {
		out.Delay = &c.delay
	}
	if c.int {
		out.INT = &c.hops
	}
	return out
}

// maxRecords is the most bytes that a shim and its records have.
const maxRecords = telemetry.PerHopBaseBytes + telemetry.MaxHops*telemetry.PerHopBytes

// bytes is what telemetry adds to a packet at most.
func (c *collect) bytes() int {
	switch {
	case c.tags:
		return 2 * c.delay.Form.Bytes()
	case c.int:
		return maxRecords
	}
	return 0
}

// kinds is what connections report: the options say what the network does.
func (c *collect) kinds() verbs.TelemetryKinds {
	k := verbs.ReportsECN
	switch {
	case c.ein:
		k |= verbs.ReportsEIN
	case c.tags:
		k |= verbs.ReportsMaxDelay
	case c.int:
		k |= verbs.ReportsPath
	}
	return k
}
