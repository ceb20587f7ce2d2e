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
//	telemetry  the name of one of telemetry.Forms
//	tagtype    EtherType of a tag
//	base, step scale of a tag's values, where its form has one
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
			if !ok || bad != nil || n >= uint64(len(c.hops.Rates)) {
				return true, fmt.Errorf("%q, expected CODE:RATE with a code from 0 to %d, such as 13:200Mbps", field, len(c.hops.Rates)-1)
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

// goesWith has the forms that an option beside telemetry= is for.
var goesWith = map[string]func(telemetry.Form) bool{
	"tagtype":  telemetry.Form.IsDelay,
	"base":     telemetry.Form.IsScaled,
	"step":     telemetry.Form.IsScaled,
	"intport":  telemetry.Form.IsPerHop,
	"intrates": telemetry.Form.IsPerHop,
}

// finish makes the formats of the options, or an error.
func (c *collect) finish(m mode) error {
	said := *c
	*c = collect{}
	var form telemetry.Form
	var unknown error
	if said.kind != "" {
		form, unknown = telemetry.FormNamed(said.kind)
	}
	for _, key := range said.set {
		if said.kind == "" || !goesWith[key](form) {
			return fmt.Errorf("option %s requires telemetry=%s", key, telemetry.FormNames(goesWith[key]))
		}
	}
	switch {
	case unknown != nil:
		return fmt.Errorf("option telemetry: %w", unknown)
	case said.kind == "":
		return nil
	case form.IsPerHop():
		c.int = true
		c.hops = telemetry.DefaultINTFormat(form.INT)
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
	case form.IsDelay():
		c.tags, c.delay = true, telemetry.DefaultDelayFormat(form.Delay)
		if said.typed != 0 {
			c.delay.EtherType = said.typed
		}
		if said.step != 0 {
			c.delay.Step = said.step
		}
		c.delay.Base = said.base
		if err := c.delay.Validate(); err != nil {
			return err
		}
	default:
		c.ein = true
		return nil
	}
	if m != modePacket {
		return errors.New("option telemetry: tags and INT require mode=packet: the sockets of other modes get neither")
	}
	return nil
}

// core is the endpoint's part of the configuration.
func (c *collect) core() (out endpoint.Collect) {
	if c.tags {
		out.Delay = &c.delay
	}
	if c.int {
		out.INT = &c.hops
	}
	return out
}

// bytes is what telemetry adds to a packet at most.
func (c *collect) bytes() int {
	switch {
	case c.tags:
		return 2 * c.delay.Form.Bytes()
	case c.int:
		return c.hops.Form.Bytes(c.hops.Form.MaxHops())
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
