package doctor

import (
	"io/fs"
	"path"
	"runtime"
	"strings"
)

// host looks at what of the machine bears on timing.
func (e *examination) host() {
	s := e.report.section("host")
	s.add(OK, "system", "%s/%s, %d processors, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	if release := e.read("proc/sys/kernel/osrelease"); release != "" {
		s.add(OK, "kernel", "%s", release)
	}
	if clock := e.read("sys/devices/system/clocksource/clocksource0/current_clocksource"); clock != "" {
		// A reading of any of these takes tens of nanoseconds, of others a microsecond.
		switch clock {
		case "tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter":
			s.add(OK, "clock source", "%s", clock)
		default:
			s.add(Warn, "clock source", "%s: reading the host's clock is slow, and so is every segment", clock).
				mend("see whether the kernel offers tsc: /sys/devices/system/clocksource/clocksource0/available_clocksource")
		}
	}
	governors := map[string]int{}
	files, _ := fs.Glob(e.root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
	for _, f := range files {
		governors[e.read(f)]++
	}
	for g, n := range governors {
		if g == "performance" {
			s.add(OK, "frequency governor", "%s on %d processors", g, n)
		} else {
			s.add(Note, "frequency governor", "%s on %d processors: a processor that wakes slowly polls late", g, n).
				mend("cpupower frequency-set -g performance")
		}
	}
}

// read returns a file's text without the space around it, empty if it can't be
// read.
func (e *examination) read(name string) string {
	text, err := fs.ReadFile(e.root, path.Clean(name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
