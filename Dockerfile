# SPDX-License-Identifier: Apache-2.0

FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN CGO_ENABLED=0 make scheduler

FROM scratch
COPY --from=build /src/bin/podgang-scheduler /usr/local/bin/podgang-scheduler
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/podgang-scheduler"]
