package stf

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/sluice-rdma/sluice/p4/internal/run"
	"github.com/sluice-rdma/sluice/units"
)

// lowPass is what lpf_set sets.
type lowPass run.LowPass

func (l *lowPass) set(name, value string) error {
	switch name {
	case "type":
		if value != "rate" && value != "sample" {
			return fmt.Errorf("%q is neither rate nor sample", value)
		}
		l.Rate = value == "rate"
		return nil
	case "gain":
		return setTime(&l.Gain, value)
	case "decay":
		return setTime(&l.Decay, value)
	case "scale":
		n, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("%q is no number", value)
		}
		l.ScaleDown = n
		return nil
	}
	return errors.New("expected type, gain, decay or scale")
}

// earlyDrop is what wred_set sets.
type earlyDrop run.EarlyDrop

func (e *earlyDrop) set(name, value string) (err error) {
	switch name {
	case "time":
		return setTime(&e.Time, value)
	case "min", "max":
		n, err := strconv.ParseUint(value, 0, 64)
		if err != nil {
			return fmt.Errorf("%q is no number", value)
		}
		if name == "min" {
			e.Min = n
		} else {
			e.Max = n
		}
		return nil
	case "probability":
		if e.Probability, err = strconv.ParseFloat(value, 64); err != nil {
			return fmt.Errorf("%q is no number", value)
		}
		return nil
	}
	return errors.New("expected time, min, max or probability")
}

func setTime(to *units.Time, value string) error {
	t, err := units.ParseTime(value)
	if err == nil {
		*to = t
	}
	return err
}
