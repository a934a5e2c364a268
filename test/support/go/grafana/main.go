// Reads a dashboard strictly with Grafana's own library. Prints a line for each unknown name, wrong type and
// violated constraint. Exits with 0 if there are none.
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	text, err := os.ReadFile(os.Args[1])
	end(err)
	plugins.RegisterDefaultPlugins()
	read := dashboard.Dashboard{}
	end(read.UnmarshalJSONStrict(text))
	end(read.Validate())
	fmt.Printf("%d panels\n", len(read.Panels))
}

func end(err error) {
	// The library answers an empty list of faults where there are none.
	if err == nil || err.Error() == "" {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
