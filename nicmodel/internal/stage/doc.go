// Package stage has what the parts of package nicmodel are made of: clocks, stages that account
// for each cycle, places that are held until an instant, and gauges of queues.
package stage
