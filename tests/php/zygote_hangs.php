<?php

// A zygote that does not get ready.

declare(strict_types=1);

while (true) {
    sleep(1000);
}
