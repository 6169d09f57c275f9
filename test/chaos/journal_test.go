// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// entry is one line of the timeline.
type entry struct {
	at time.Time
	// revision is the resource version of a change; 0 for what is no change of an object.
	revision uint64
	// subject is the gang or the pod outside gangs that it is about, "" for the cluster.
	subject string
	text    string
}

// journal is the timeline of a run: faults, steps and changes of objects.
type journal struct {
	mu      sync.Mutex // guards what follows
	entries []entry
	faults  int
	// lastChange is when an object last changed.
	lastChange time.Time
}

func (j *journal) note(subject, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, entry{at: time.Now(), subject: subject, text: text})
}

func (j *journal) change(e entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, e)
	j.lastChange = e.at
}

// fault notes a fault that has come about.
func (j *journal) fault(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.faults++
	j.entries = append(j.entries, entry{at: time.Now(), text: "FAULT " + text})
}

// faultOn notes a fault that has befallen a request.
func (j *journal) faultOn(urlPath, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.faults++
	j.entries = append(j.entries, entry{at: time.Now(), subject: subjectOf(urlPath), text: "FAULT " + text})
}

func (j *journal) faultCount() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.faults
}

// quietFor is how long no object has changed.
func (j *journal) quietFor() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return time.Since(j.lastChange)
}

// about returns the timeline of a subject and of the cluster up to a time, all of it for
// "".
func (j *journal) about(subject string, until time.Time) []string {
	j.mu.Lock()
	entries := slices.Clone(j.entries)
	j.mu.Unlock()
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	var lines []string
	for _, e := range entries {
		if (subject == "" || e.subject == subject || e.subject == "") && !e.at.After(until) {
			lines = append(lines, fmt.Sprintf("%s %7s %-6s %s", e.at.Format("15:04:05.000"), revisionText(e.revision), e.subject, e.text))
		}
	}
	return lines
}

func revisionText(revision uint64) string {
	if revision == 0 {
		return ""
	}
	return fmt.Sprint(revision)
}

// subjectPattern finds the gang or the plain pod that a name belongs to: everything that
// belongs to gang g012 is called g012 or g012-something.
var subjectPattern = regexp.MustCompile(`\b([gpx][0-9]{3,})\b`)

func subjectOf(name string) string { return subjectPattern.FindString(name) }

// last returns the last n lines.
func last(lines []string, n int) []string {
	return lines[max(0, len(lines)-n):]
}

func indent(lines []string) string { return "    " + strings.Join(lines, "\n    ") + "\n" }
