package cc

import (
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

func TestEnvValidate(t *testing.T) {
	good := Env{LineRate: units.Gbps, BaseRTT: units.Microsecond, MTU: 1024}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Env){
		"line rate": func(e *Env) { e.LineRate = 0 },
		"base RTT":  func(e *Env) { e.BaseRTT = -1 },
		"MTU":       func(e *Env) { e.MTU = 0 },
	} {
		e := good
		change(&e)
		if err := e.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v does not name the %s", e, err, want)
		}
	}
}
